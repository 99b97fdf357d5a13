import Common
import DBus
import HCI
import Journal
import Loop
import Radio

/// An advertisement that the kernel sends for us, byte by byte as it was given, at its own interval.
///
/// bluetoothd numbers its instances from 1 and knows of no others: ours are counted down from the highest. It removes all
/// when it starts; a power cycle and a connection end them, too. Facts: bluez.md section 6.
@LoopActor
final class ManagedAdvertisement: KeptAdvertisement {
  private enum State {
    /// There is nowhere to put it.
    case idle
    /// The kernel is busy with it.
    case working
    case onAir
    /// It is tried again when the timer fires.
    case waiting(Registration)
    case closed
  }

  /// An instance of a controller.
  private struct Spot: Hashable {
    let index: UInt16
    let instance: UInt8
  }

  /// What is on the air, and how often.
  struct Payload {
    let data: [UInt8]
    let scanResponse: [UInt8]
    /// In 0.625 ms.
    let interval: UInt32

    /// What controllers take: 20 ms to 10.24 s.
    static let intervals: ClosedRange<Int64> = 0x20...0x4000

    init(_ advertisement: Advertisement) throws(RadioError) {
      data = try advertisement.data.encoded()
      scanResponse = try advertisement.scanResponse.encoded()
      let units = advertisement.interval.wholeNanoseconds / 625_000
      interval = UInt32(min(max(units, Self.intervals.lowerBound), Self.intervals.upperBound))
    }
  }

  private(set) var problem: String?
  /// It is the one of this number, from 0, of those that are ours.
  let number: Int

  private let payload: Payload
  private let socket: ManagementSocket
  private let scheduler: any Scheduler
  private let takenByOthers: @LoopActor () -> Int
  private let onChange: @LoopActor () -> Void
  private var state = State.idle
  private var place: Place?
  /// Where the kernel may have it from before.
  private var left: Spot?
  /// Answers to commands of an earlier attempt mean nothing any more.
  private var attempt = 0
  /// Asked for while an attempt was under way.
  private var wantsRenewal = false
  private var backoff = Backoff()
  private var events: Registration?

  /// - Parameters:
  ///   - takenByOthers: how many instances bluetoothd has at the present place.
  ///   - onChange: called when `problem` changed.
  init(
    _ payload: Payload, number: Int, socket: ManagementSocket, scheduler: any Scheduler,
    takenByOthers: @escaping @LoopActor () -> Int, onChange: @escaping @LoopActor () -> Void
  ) {
    self.payload = payload
    self.number = number
    self.socket = socket
    self.scheduler = scheduler
    self.takenByOthers = takenByOthers
    self.onChange = onChange
    events = socket.onEvent { [weak self] event, index in self?.heard(event, index) }
  }

  let path: ObjectPath? = nil
  let shortfall: String? = nil

  // MARK: What is wanted

  func aim(at place: Place?) {
    guard !isClosed, place != self.place else { return }
    self.place = place
    backoff.reset()
    show(nil)
    restart()
  }

  func renew() {
    switch state {
    case .onAir, .waiting: restart()
    case .working: wantsRenewal = true
    case .idle, .closed: break
    }
  }

  func close() {
    guard !isClosed else { return }
    attempt += 1
    state = .closed
    events = nil
    if let left { socket.call(RemoveAdvertising(instance: left.instance), on: left.index) { _ in } }
    left = nil
  }

  private var isClosed: Bool { if case .closed = state { true } else { false } }

  /// Somebody took it off the air: bluetoothd when it starts, or another program.
  private func heard(_ event: ManagementEvent, _ index: UInt16) {
    guard case .advertisingRemoved(let instance) = event, left == Spot(index: index, instance: instance) else { return }
    switch state {
    case .onAir:
      left = nil
      attempt += 1
      wait()
    case .working: wantsRenewal = true
    case .idle, .waiting, .closed: break
    }
  }

  // MARK: Attempts

  private func restart() {
    attempt += 1
    wantsRenewal = false
    state = place == nil ? .idle : .working
    guard let left else { return ask() }
    let attempt = attempt
    self.left = nil
    // Its answer does not matter: what is not there need not be taken away.
    socket.call(RemoveAdvertising(instance: left.instance), on: left.index) { [weak self] _ in
      guard let self, self.attempt == attempt else { return }
      ask()
    }
  }

  private func ask() {
    guard let index = place?.index else { return }
    perform(ReadAdvertisingFeatures(), on: index) { (self, features) in self.add(features, on: index) }
  }

  private func add(_ features: AdvertisingFeatures, on index: UInt16) {
    let instance = Int(features.instanceLimit) - number
    guard instance > takenByOthers(), let instance = UInt8(exactly: instance) else { return failed(Self.noRoom) }
    left = Spot(index: index, instance: instance)
    guard features.flags.isSuperset(of: [.intervals, .scanResponse]) else {
      // A kernel before 5.12: all at once, at its own interval.
      let command = AddAdvertising(
        instance: instance, flags: .connectable, data: payload.data, scanResponse: payload.scanResponse)
      return perform(command, on: index) { (self, _) in self.added() }
    }
    var flags: AdvertisingFlags = [.connectable, .intervals]
    if !payload.scanResponse.isEmpty { flags.insert(.scanResponse) }
    let parameters = AddExtendedAdvertisingParameters(instance: instance, flags: flags, interval: payload.interval)
    let data = AddExtendedAdvertisingData(
      instance: instance, data: payload.data, scanResponse: payload.scanResponse)
    perform(parameters, on: index) { (self, _) in
      self.perform(data, on: index, isNext: true) { (self, _) in self.added() }
    }
  }

  private func added() {
    state = .onAir
    backoff.reset()
    show(nil)
    if wantsRenewal { restart() }
  }

  /// One step of an attempt; what fails ends it.
  private func perform<Command: ManagementCommand>(
    _ command: Command, on index: UInt16, isNext: Bool = false,
    then: @escaping @LoopActor (ManagedAdvertisement, Command.Reply) -> Void
  ) {
    let attempt = attempt
    socket.call(command, on: index, isNext: isNext) { [weak self] result in
      guard let self, self.attempt == attempt else { return }
      switch result {
      case .success(let reply): then(self, reply)
      case .failure(let failure):
        Log.shared.debug("Management command \(Command.opcode) was answered with \(failure.description)")
        failed(failure)
      }
    }
  }

  private func failed(_ failure: ManagementSocket.Failure) {
    switch failure {
    case .refused(.busy) where backoff.isFresh: wait()
    // bluetoothd will say so, and then it is tried elsewhere or later.
    case .refused(.invalidIndex), .refused(.notPowered): wait()
    case .closed: failed("The management socket is closed, and with it the advertisement: systemctl restart earshotd.")
    default: failed("The kernel refuses to advertise on \(adapter) (\(failure)). It is tried again.")
    }
  }

  private func failed(_ sentence: String) {
    show(sentence)
    wait()
  }

  private func wait() {
    state = .waiting(scheduler.schedule(after: backoff.next()) { [weak self] in self?.restart() })
  }

  private func show(_ problem: String?) {
    guard problem != self.problem else { return }
    self.problem = problem
    onChange()
  }

  private var adapter: String { place?.adapter.lastElement ?? "" }

  static let noRoom =
    "The adapter has no room for another advertisement: end another program's, or switch a dialect off."
}

extension Place {
  /// The kernel's number of the adapter: 0 for `hci0`.
  var index: UInt16? {
    let name = adapter.lastElement
    return name.hasPrefix("hci") ? UInt16(name.dropFirst(3)) : nil
  }
}
