import Journal
import Loop
import Radio

/// Runs its argument with the privilege that raw HCI needs. In a program this is CAP_NET_RAW, which is effective only
/// while the argument runs.
public typealias RawPrivilege = @LoopActor (() throws(HCIError) -> Void) throws(HCIError) -> Void

/// Raw HCI on the kernel's raw sockets, two for each controller: one sends packets, and the other receives clients'
/// CCCD writes.
@LoopActor
public final class KernelHCI: RawHCI {
  private let makeSocket: @LoopActor (UInt16) throws(HCIError) -> any RawSocket
  private let makeListener: @LoopActor (UInt16) throws(HCIError) -> (any ConfigurationSocket)?
  private let scheduler: any Scheduler
  private let privilege: RawPrivilege
  private var controllers: [UInt16: RawController] = [:]
  private var watches: [UInt16: ConfigurationWatch] = [:]
  private let room = Observers<(address: BluetoothAddress, index: UInt16)>()
  private let configured = Observers<SeenConfiguration>()

  /// - Parameters:
  ///   - makeSocket: creates a socket for sending, for the controller's index.
  ///   - makeListener: creates a socket for CCCD writes; returns nil if they are not to be received.
  ///   - privilege: the privilege that the kernel requires for sending and listening.
  public init(
    scheduler: any Scheduler = EventLoop.shared,
    makeSocket: @escaping @LoopActor (UInt16) throws(HCIError) -> any RawSocket = { (index) throws(HCIError) in
      try HCISocket(.raw, index: index)
    },
    makeListener: @escaping @LoopActor (UInt16) throws(HCIError) -> (any ConfigurationSocket)? = { (_) in nil },
    privilege: @escaping RawPrivilege = { (body) throws(HCIError) in try Capabilities.using(.netRaw, body) }
  ) {
    self.scheduler = scheduler
    self.privilege = privilege
    self.makeSocket = makeSocket
    self.makeListener = makeListener
  }

  /// Creates a socket that receives CCCD writes.
  public static func listener(_ index: UInt16) throws(HCIError) -> (any ConfigurationSocket)? {
    try HCISocket(.raw, index: index)
  }

  public func open(_ index: UInt16) throws(HCIError) { _ = try controller(index) }

  public func closeAll() {
    let open = controllers
    (controllers, watches) = ([:], [:])
    for index in open.keys.sorted() { open[index]?.close() }
  }

  public func links(of index: UInt16) throws(HCIError) -> [HCILink] { try controller(index).links() }

  public func configuration(of attribute: UInt16, by address: BluetoothAddress, on index: UInt16) -> LastConfiguration?
  {
    guard let watch = watches[index], let links = try? links(of: index) else { return nil }
    let found = links.filter { $0.address == address && $0.isLE && $0.isConnected }
    guard found.count == 1, let link = found.first else { return nil }
    return watch.last(of: attribute, on: link.handle)
  }

  public func onConfiguration(_ handler: @escaping @LoopActor (SeenConfiguration) -> Void) -> Registration {
    configured.add(handler)
  }

  public func send(
    _ value: ATTNotification, to address: BluetoothAddress, on index: UInt16,
    then: @escaping @LoopActor (RawOutcome) -> Void
  ) -> RawAcceptance {
    do throws(HCIError) {
      return try controller(index).send(value, to: address, then: then)
    } catch {
      EventLoop.shared.soon { [error] in then(.failed(error)) }
      return .accepted
    }
  }

  public func forget(_ address: BluetoothAddress, on index: UInt16) { controllers[index]?.forget(address) }

  public func onRoom(_ handler: @escaping @LoopActor (BluetoothAddress, UInt16) -> Void) -> Registration {
    room.add { handler($0.address, $0.index) }
  }

  public func packetLimit(of index: UInt16) -> Int { ATTNotification.packetLimit(buffers(of: index)) }

  /// The LE buffers of the controller `index`; the specification's minimum until the controller has reported them.
  func buffers(of index: UInt16) -> LEBuffers { controllers[index]?.buffers ?? .least }

  private func controller(_ index: UInt16) throws(HCIError) -> RawController {
    if let controller = controllers[index] { return controller }
    let controller = try RawController(try makeSocket(index), index, scheduler, privilege)
    controller.onRoom = { [weak self] address in self?.room.call((address, index)) }
    controller.onClosed = { [weak self, weak controller] in
      guard let self, let controller, controllers[index] === controller else { return }
      (controllers[index], watches[index]) = (nil, nil)
    }
    controllers[index] = controller
    watches[index] = watch(of: index)
    return controller
  }

  /// Creates the watch of CCCD writes. A failure does not prevent sending values.
  private func watch(of index: UInt16) -> ConfigurationWatch? {
    do throws(HCIError) {
      guard let socket = try makeListener(index) else { return nil }
      return try ConfigurationWatch(socket, privilege) { [weak self] in self?.saw($0, on: index) }
    } catch {
      Log.shared.debug("CCCD writes on hci\(index) cannot be observed: \(error)")
      return nil
    }
  }

  private func saw(_ write: ConfigurationWrite, on index: UInt16) {
    guard let configuration = ClientConfiguration(rawValue: write.value), let links = try? links(of: index),
      let link = links.first(where: { $0.handle == write.link && $0.isLE && $0.isConnected })
    else { return }
    configured.call(SeenConfiguration(configuration, of: write.attribute, by: link.address, on: index))
  }
}
