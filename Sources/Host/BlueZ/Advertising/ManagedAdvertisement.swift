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

  /// It is the one of this number, from 0, of those that are ours.
  let number: Int

  private let payload: Payload
  private let socket: ManagementSocket
  private let takenByOthers: @LoopActor () -> Int
  private let attempts: Attempts
  /// Where the kernel may have it from before.
  private var left: Spot?
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
    self.takenByOthers = takenByOthers
    attempts = Attempts(scheduler: scheduler, onChange: onChange)
    attempts.begin = { [weak self] in self?.begin() }
    events = socket.onEvent { [weak self] event, index in self?.heard(event, index) }
  }

  let path: ObjectPath? = nil
  let shortfall: String? = nil
  var problem: String? { attempts.problem }

  // MARK: What is wanted

  func aim(at place: Place?) { attempts.aim(at: place) }

  func renew() { attempts.renew() }

  func close() {
    guard attempts.close() else { return }
    events = nil
    if let left { socket.call(RemoveAdvertising(instance: left.instance), on: left.index) { _ in } }
    left = nil
  }

  /// Somebody took it off the air: bluetoothd when it starts, or another program.
  private func heard(_ event: ManagementEvent, _ index: UInt16) {
    guard case .advertisingRemoved(let instance) = event, left == Spot(index: index, instance: instance) else { return }
    if attempts.isDone {
      left = nil
      attempts.undone()
    } else if attempts.isUnderWay {
      attempts.renew()
    }
  }

  // MARK: Attempts

  private func begin() {
    guard let left else { return ask() }
    self.left = nil
    // Its answer does not matter: what is not there need not be taken away.
    let removed: @LoopActor (Result<UInt8, ManagementSocket.Failure>) -> Void = attempts.inAttempt { [weak self] _ in
      self?.ask()
    }
    socket.call(RemoveAdvertising(instance: left.instance), on: left.index, then: removed)
  }

  private func ask() {
    guard let index = attempts.place?.index else { return }
    perform(ReadAdvertisingFeatures(), on: index) { (self, features) in self.add(features, on: index) }
  }

  private func add(_ features: AdvertisingFeatures, on index: UInt16) {
    let instance = Int(features.instanceLimit) - number
    guard instance > takenByOthers(), let instance = UInt8(exactly: instance) else {
      return attempts.failed(Self.noRoom)
    }
    left = Spot(index: index, instance: instance)
    guard features.flags.isSuperset(of: [.intervals, .scanResponse]) else {
      // A kernel before 5.12: all at once, at its own interval.
      let command = AddAdvertising(
        instance: instance, flags: .connectable, data: payload.data, scanResponse: payload.scanResponse)
      return perform(command, on: index) { (self, _) in self.attempts.succeeded() }
    }
    var flags: AdvertisingFlags = [.connectable, .intervals]
    if !payload.scanResponse.isEmpty { flags.insert(.scanResponse) }
    let parameters = AddExtendedAdvertisingParameters(instance: instance, flags: flags, interval: payload.interval)
    let data = AddExtendedAdvertisingData(
      instance: instance, data: payload.data, scanResponse: payload.scanResponse)
    perform(parameters, on: index) { (self, _) in
      self.perform(data, on: index, isNext: true) { (self, _) in self.attempts.succeeded() }
    }
  }

  /// One step of an attempt; what fails ends it.
  private func perform<Command: ManagementCommand>(
    _ command: Command, on index: UInt16, isNext: Bool = false,
    then: @escaping @LoopActor (ManagedAdvertisement, Command.Reply) -> Void
  ) {
    let answered: @LoopActor (Result<Command.Reply, ManagementSocket.Failure>) -> Void = attempts.inAttempt {
      [weak self] result in
      guard let self else { return }
      switch result {
      case .success(let reply): then(self, reply)
      case .failure(let failure):
        Log.shared.debug("Management command \(Command.opcode) was answered with \(failure.description)")
        failed(failure)
      }
    }
    socket.call(command, on: index, isNext: isNext, then: answered)
  }

  private func failed(_ failure: ManagementSocket.Failure) {
    switch failure {
    case .refused(.busy) where attempts.isFresh: attempts.failed()
    // bluetoothd will say so, and then it is tried elsewhere or later.
    case .refused(.invalidIndex), .refused(.notPowered): attempts.failed()
    case .closed:
      attempts.failed("The management socket is closed, and with it the advertisement: systemctl restart earshotd.")
    default: attempts.failed("The kernel refuses to advertise on \(adapter) (\(failure)). It is tried again.")
    }
  }

  private var adapter: String { attempts.place?.adapter.lastElement ?? "" }

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
