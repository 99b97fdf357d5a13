import Common
import DBus
import HCI
import Journal
import Loop
import Radio

/// The GATT server: the applications of this program at bluetoothd, their clients' subscriptions and sockets, and the
/// paths of values in both directions.
///
/// The version of bluetoothd determines the notification path once, for all characteristics: see `SocketNotifier` (from
/// 5.76 on) and `SignalNotifier`. Values are sent to bluetoothd only: no other program on the bus receives them.
///
/// An application is removed in two steps: first the links of its users are ended, then it is unregistered. A client
/// that is connected when its service is removed receives Service Changed. Its BlueZ may then cache the remaining
/// services as the complete database, with the former Database Hash (docs/bluez.md, "Handles"). A second reason is a
/// crash: bluetoothd 5.82 ended with SIGSEGV when an application was removed while clients were writing.
@LoopActor
final class GATTServer: LinkServer {
  /// Whether bluetoothd requests a separate socket for each client that subscribes (from 5.76 on).
  let keepsClientsApart: Bool

  private let context: ServingContext
  private let daemon: BluetoothDaemon
  /// Whether bluetoothd is asked for specific handles (docs/bluez.md, "Handles").
  private let choosesHandles: Bool
  /// The type of `Notifier` that all characteristics use, by the version of bluetoothd.
  private let path: any Notifier.Type
  private let onChange: @LoopActor () -> Void
  private var applications: [ApplicationID: Application] = [:]
  /// Applications that are removed when the links of their clients have ended.
  private var leaving: [Application] = []
  private var successors: [Successor] = []
  /// The handles that the latest registration has requested.
  private var handles = HandleBlock.random()
  private var registrations: [Registration] = []

  /// Time limit for the end of the links; bluetoothd waits two seconds before it disconnects a link.
  private static let linkEndTime = Duration.seconds(3)

  /// A registered application, with the served characteristics.
  @LoopActor
  private final class Application {
    let served: ServedApplication
    let characteristics: [CharacteristicID: CharacteristicServer]
    /// Timer that limits the wait for the end of the clients' links, while the application is being removed.
    var timer: Registration?

    init(_ served: ServedApplication, _ characteristics: [CharacteristicID: CharacteristicServer]) {
      self.served = served
      self.characteristics = characteristics
    }

    /// Whether the application sends values to clients that never subscribe.
    var reachesAll: Bool { served.characteristics.values.contains { $0.canNotify && $0.isExact } }

    func close() {
      timer = nil
      served.close()
      for characteristic in characteristics.values { characteristic.close() }
    }
  }

  /// A function to be called when a set of applications has been removed.
  private struct Successor {
    let applications: [Application]
    let begin: @LoopActor () -> Void

    @LoopActor
    func waits(for leaving: [Application]) -> Bool {
      applications.contains { application in leaving.contains { $0 === application } }
    }
  }

  /// - Parameters:
  ///   - version: bluetoothd's version; nil if unknown.
  ///   - repair: whether the kernel supports values over raw HCI.
  ///   - onChange: called when `problem` or `shortfall` may have changed.
  init(
    _ bus: BusConnection, scheduler: any Scheduler, counters: BlueZCounters, daemon: BluetoothDaemon, links: PeerLinks,
    raw door: KernelChannel<any RawHCI>, repair: KernelRepair, version: BlueZVersion?,
    onChange: @escaping @LoopActor () -> Void
  ) {
    self.daemon = daemon
    self.onChange = onChange
    keepsClientsApart = version.map { $0 >= BlueZLimit.separateClients } ?? false
    choosesHandles = version.map { $0 >= BlueZLimit.handles } ?? false
    path = keepsClientsApart ? SocketNotifier.self : SignalNotifier.self
    let raw = RawATT(door, repair, links: links, counters: counters, onChange: onChange)
    context = ServingContext(bus, scheduler: scheduler, counters: counters, links: links, raw: raw)
    guard let hci = door.way else { return }
    registrations = [
      hci.onRoom { [weak context] address, index in
        guard let context, index == context.links.place?.index, let link = context.links.link(at: address)
        else { return }
        context.hasRoom(link.id)
      },
      hci.onConfiguration { [weak self] in self?.configured($0) },
    ]
  }

  var delegate: (any RadioDriverDelegate)? {
    get { context.delegate }
    set { context.delegate = newValue }
  }

  private var links: PeerLinks { context.links }

  // MARK: State

  /// The first fault that prevents peers from discovering an application.
  var problem: String? { inOrder.lazy.compactMap(\.served.registration.problem).first }

  /// The reason why clients without a subscription receive no values, and what to do; nil if they receive them, or if
  /// no application sends such values.
  var shortfall: String? {
    guard let reason = context.raw.problem, applications.values.contains(where: \.reachesAll) else { return nil }
    return "Clients that never subscribe receive no values (\(reason)). \(KernelChannels.remedy("CAP_NET_RAW")),"
      + " or NotifyUnsubscribed=no."
  }

  var isEmpty: Bool { applications.isEmpty }

  var wantsFastLinks: Bool { applications.values.contains(where: \.served.wantsFastLinks) }

  func isServed(_ number: ApplicationID) -> Bool { applications[number]?.served.registration.isRegistered ?? false }

  /// Whether the D-Bus object at `path` belongs to an application.
  func owns(_ path: ObjectPath) -> Bool { (applications.values + leaving).contains { path.isWithin($0.served.path) } }

  private var inOrder: [Application] { applications.sorted { $0.key.number < $1.key.number }.map(\.value) }

  // MARK: Adapter

  /// Handles the start of another bluetoothd.
  func daemonChanged() { context.signals.reset() }

  /// Uses another adapter from now on; nil for none. The links of the former adapter have ended.
  func aim(at place: Place?) {
    context.raw.reopen()
    for application in inOrder { application.served.aim(at: place) }
  }

  // MARK: Applications

  /// Exports the objects of the application immediately. Peers discover them when bluetoothd has registered the
  /// application. Reading a characteristic returns the value that was notified last.
  ///
  /// - Returns: false if the number is in use.
  func serve(_ application: GATTApplication, as number: ApplicationID) -> Bool {
    guard applications[number] == nil else { return false }
    let registration = PersistentRegistration(
      .application, BlueZName.ownRoot.child("gatt\(number.number)"), bus: context.bus, scheduler: context.scheduler,
      willRegister: { [weak self] in
        self?.reset(number)
        self?.giveHandles(to: number)
      },
      asksForLess: { [weak self] in self?.applications[number]?.served.doesWithoutHandles(after: $0) ?? false },
      onRegistered: { [weak self] isServed in
        self?.applications[number]?.served.registered(isServed)
        self?.delegate?.applicationChanged(number, isServed: isServed)
      },
      onChange: onChange)
    let served = ServedApplication(
      application, as: number, registration: registration, on: context.bus.objects, daemon: daemon,
      counters: context.counters, choosesHandles: choosesHandles, hasSockets: keepsClientsApart)
    applications[number] = Application(
      served,
      served.characteristics.mapValues { characteristic in
        CharacteristicServer(
          characteristic, context, notifier: path.init(characteristic, context),
          offersWrites: keepsClientsApart && characteristic.declaration.takesAllWrites,
          isWanted: { [weak self] in self?.applications[number] != nil })
      })
    // bluetoothd would confuse two registrations of one service.
    afterLeaving { [weak self] in
      guard let self else { return }
      applications[number]?.served.aim(at: links.place)
    }
    return true
  }

  /// Removes an application when the links of its users have ended: the delegate ends them in this loop iteration.
  ///
  /// - Returns: false if there is none.
  func stopServing(_ number: ApplicationID) -> Bool {
    guard let application = applications.removeValue(forKey: number) else { return false }
    leaving.append(application)
    application.timer = context.scheduler.schedule(after: Self.linkEndTime) { [weak self, weak application] in
      if let application { self?.close(left: [application]) }
    }
    EventLoop.shared.soon { [weak self] in self?.cutsMayBeOver() }
    return true
  }

  private func close(left: [Application]) {
    guard !left.isEmpty else { return }
    leaving.removeAll { application in left.contains { $0 === application } }
    for application in left { application.close() }
    let ready = successors.filter { !$0.waits(for: leaving) }
    successors.removeAll { !$0.waits(for: leaving) }
    for successor in ready { successor.begin() }
  }

  /// Calls `then` when the applications that are being removed are gone, at most `linkEndTime` later.
  func afterLeaving(_ then: @escaping @LoopActor () -> Void) {
    if leaving.isEmpty { then() } else { successors.append(Successor(applications: leaving, begin: then)) }
  }

  private func giveHandles(to number: ApplicationID) {
    guard let application = applications[number]?.served, application.wantsHandles else { return }
    handles = handles.next
    application.request(handles)
  }

  /// Resets an application that bluetoothd has dropped, or is about to register.
  private func reset(_ number: ApplicationID) {
    guard let application = applications[number] else { return }
    for characteristic in application.characteristics.values { characteristic.reset() }
  }

  // MARK: Links

  var services: Set<BluetoothUUID> {
    (applications.values + leaving).reduce(into: []) { $0.formUnion($1.served.services) }
  }

  func linkOpened(_ link: LinkID) { forEach { $0.writes?.opened(link) } }

  func unlinkedPeerConnected() { forEach { $0.writes?.expectUnlinkedPeers() } }

  func linkWillEnd(_ link: LinkID) { forEach { $0.writes?.takeLast(of: link) } }

  func linkEnded(_ link: LinkID) {
    context.signals.forget(link)
    for application in applications.values + leaving {
      for characteristic in application.characteristics.values { characteristic.forget(link) }
    }
  }

  func cutsMayBeOver() { if !links.areBeingCut { close(left: leaving) } }

  func expectStream(from link: LinkID, in application: ApplicationID) {
    guard let application = applications[application] else { return }
    for characteristic in application.characteristics.values { characteristic.writes?.expectStream(from: link) }
  }

  /// Applies a changed limit of the link's waiting bytes.
  func limit(_ link: PeerLink) { forEach { $0.notifier.limit(link) } }

  /// Handles a client's write to a CCCD.
  private func configured(_ seen: SeenConfiguration) {
    guard seen.index == links.place?.index, seen.configuration == .nothing, let link = links.link(at: seen.address)
    else { return }
    forEach { server in
      let characteristic = server.characteristic
      if characteristic.canNotify, characteristic.handle != 0, characteristic.configurationHandle == seen.attribute {
        server.notifier.hasWrittenNothing(link)
      }
    }
  }

  /// Calls `body` for each characteristic that a service uses.
  private func forEach(_ body: @LoopActor (CharacteristicServer) -> Void) {
    for application in applications.values {
      for characteristic in application.characteristics.values { body(characteristic) }
    }
  }

  // MARK: Values

  /// Sends a value of a characteristic to clients.
  func notify(
    _ value: [UInt8], of id: CharacteristicID, in number: ApplicationID, to recipients: Recipients
  ) -> Delivery {
    let delivery: Delivery
    if let server = applications[number]?.characteristics[id], server.characteristic.canNotify {
      delivery = server.notify(value, to: recipients)
    } else {
      delivery = Delivery(unreachable: recipients.links ?? [])
    }
    if !delivery.unreachable.isEmpty {
      context.counters.droppedNotifications += UInt64(delivery.unreachable.count)
      Log.shared.debug("A value is dropped for \(delivery.unreachable.count) links that are gone or not subscribed")
    }
    return delivery
  }
}
