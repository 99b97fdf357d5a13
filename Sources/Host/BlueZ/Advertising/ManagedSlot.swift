import Common
import DBus
import HCI
import Journal
import Loop
import Radio

/// One slot of the controller: an advertising instance that the kernel sends for us, at our interval.
///
/// bluetoothd removes all instances when it starts; a power cycle and a connection end them, too. Facts: bluez.md
/// section 6. If only the data changes, the data of the live instance is replaced: the instance continues from the same
/// address.
@LoopActor
final class ManagedSlot {
  /// The encoded content of an advertisement, and its parameters.
  struct Payload: Hashable {
    let advertisement: Advertisement
    var data: [UInt8]
    var scanResponse: [UInt8]
    var parameters: Parameters

    /// Nil if a payload has more than 31 bytes.
    init?(_ advertisement: Advertisement) {
      guard let data = try? advertisement.data.encoded(),
        let scanResponse = try? advertisement.scanResponse.encoded()
      else { return nil }
      self.advertisement = advertisement
      self.data = data
      self.scanResponse = scanResponse
      let units = advertisement.interval.wholeNanoseconds / 625_000
      parameters = Parameters(
        interval: UInt32(min(max(units, Parameters.intervals.lowerBound), Parameters.intervals.upperBound)),
        set: advertisement.setID, hasScanResponse: !scanResponse.isEmpty)
    }
  }

  /// Parameters of an instance that cannot be changed while the instance exists.
  struct Parameters: Hashable {
    /// Advertising interval, in units of 0.625 ms.
    var interval: UInt32
    /// The advertising set; nil for a connectable advertisement. When the data of a set is replaced, its address does
    /// not change.
    var set: AdvertisingSetID?
    var hasScanResponse: Bool

    /// The range that controllers accept: 20 ms to 10.24 s.
    static let intervals: ClosedRange<Int64> = 0x20...0x4000

    var flags: AdvertisingFlags {
      var flags: AdvertisingFlags = .intervals
      if set == nil { flags.insert(.connectable) }
      if hasScanResponse { flags.insert(.scanResponse) }
      return flags
    }
  }

  /// An instance of ours that exists in the kernel.
  private struct Live: Hashable {
    let index: UInt16
    let instance: UInt8
    /// Parameters of an instance whose data can be replaced. Nil if the instance is not complete, or if the controller
    /// may have ended it.
    var parameters: Parameters?
    /// The advertising data and the scan response.
    var data: [UInt8] = []
    var scanResponse: [UInt8] = []
  }

  private let number: Int
  private weak var advertising: ManagedAdvertising?
  private let socket: ManagementSocket
  private let attempts: Attempts
  private var place: Place?
  private var wanted: Payload?
  private var live: Live?
  /// Number of times that the controller may have ended the instance, or another program took it.
  private var endings = 0
  /// The advertisement that was last reported as active.
  private var told: Advertisement?

  /// - Parameter onChange: called when `problem` changed.
  init(
    _ number: Int, of advertising: ManagedAdvertising, scheduler: any Scheduler,
    onChange: @escaping @LoopActor () -> Void
  ) {
    self.number = number
    self.advertising = advertising
    socket = advertising.socket
    attempts = Attempts(scheduler: scheduler, onChange: onChange)
    attempts.begin = { [weak self] in self?.begin() }
  }

  var problem: String? { attempts.problem }

  /// Whether peers can connect through the advertisement of this slot.
  var isConnectable: Bool { wanted?.parameters.set == nil }

  /// Whether the slot has an advertisement that is not connectable.
  var isBroadcast: Bool { wanted?.parameters.set != nil }

  private func tell(_ advertisement: Advertisement?) {
    guard advertisement != told else { return }
    told = advertisement
    advertising?.onAir(advertisement, number)
  }

  // MARK: Requests

  func show(_ payload: Payload?) {
    guard payload != wanted else { return }
    wanted = payload
    if payload == nil { tell(nil) }
    let target = payload == nil ? nil : place
    if attempts.place == target { attempts.renew() } else { attempts.aim(at: target) }
  }

  func aim(at place: Place?) {
    self.place = place
    if place == nil {
      ended()
      tell(nil)
    }
    attempts.aim(at: wanted == nil ? nil : place)
  }

  /// Recreates the instance, which the controller may have ended.
  func renew() {
    ended()
    attempts.renew()
  }

  private func ended() {
    live?.parameters = nil
    endings += 1
  }

  /// Handles the loss of this slot's instance: another program now uses its number.
  func taken() {
    live = nil
    tell(nil)
    renew()
  }

  /// Handles an instance that another program removed: for example bluetoothd when it starts.
  func removed(_ instance: UInt8) {
    guard live?.instance == instance else { return }
    if attempts.isDone {
      live = nil
      tell(nil)
      attempts.undone()
    } else if attempts.isUnderWay {
      renew()
    }
  }

  // MARK: Attempts

  private func begin() {
    if let wanted, let live, live.parameters == wanted.parameters, live.index == attempts.place?.index {
      return exchange(wanted, live)
    }
    guard let live else { return ask() }
    self.live = nil
    // The result is ignored: an instance that does not exist need not be removed.
    let removed: @LoopActor (Result<UInt8, ManagementSocket.Failure>) -> Void = attempts.inAttempt { [weak self] _ in
      self?.ask()
    }
    socket.call(RemoveAdvertising(instance: live.instance), on: live.index, then: removed)
  }

  /// Replaces the data of a live instance; an instance that no longer exists is recreated.
  ///
  /// The kernel passes the advertising data to the controller first, and then the scan response. A scanner between the
  /// two would combine the new data with the old response. The response is therefore replaced first, by a separate
  /// command.
  private func exchange(_ payload: Payload, _ live: Live) {
    let isWhole = payload.data == live.data || payload.scanResponse == live.scanResponse
    let data = AddExtendedAdvertisingData(
      instance: live.instance, data: isWhole ? payload.data : live.data, scanResponse: payload.scanResponse)
    let answered: @LoopActor (Result<UInt8, ManagementSocket.Failure>) -> Void = attempts.inAttempt {
      [weak self] result in
      guard let self else { return }
      switch result {
      case .success:
        var now = live
        (now.data, now.scanResponse) = (data.data, data.scanResponse)
        if self.live == live { self.live = now }
        if isWhole { succeeded(payload) } else { exchange(payload, now) }
      case .failure(.closed): failed(.closed)
      case .failure(let failure):
        Log.shared.debug("Replacing the data of an advertisement failed: \(failure.description)")
        ended()
        attempts.failedOnce()
      }
    }
    socket.call(data, on: live.index, then: answered)
  }

  private func ask() {
    guard let index = attempts.place?.index else {
      advertising?.free(number)
      return
    }
    perform(ReadAdvertisingFeatures(), on: index) { (self, features) in self.add(features, on: index) }
  }

  private func add(_ features: AdvertisingFeatures, on index: UInt16) {
    guard let advertising, let wanted else { return }
    attempts.catchUp()
    advertising.learn(features)
    guard let instance = advertising.number(for: number) else {
      tell(nil)
      return attempts.failed(RegistrationWords.noRoom)
    }
    live = Live(index: index, instance: instance)
    let (parameters, endings) = (wanted.parameters, endings)
    guard features.flags.isSuperset(of: [.intervals, .scanResponse]) else {
      // Before Linux 5.12 there is one command, without an interval.
      let command = AddAdvertising(
        instance: instance, flags: parameters.set == nil ? .connectable : [], data: wanted.data,
        scanResponse: wanted.scanResponse)
      return perform(command, on: index) { (self, _) in self.succeeded(wanted) }
    }
    let first = AddExtendedAdvertisingParameters(
      instance: instance, flags: parameters.flags, interval: parameters.interval)
    let second = AddExtendedAdvertisingData(instance: instance, data: wanted.data, scanResponse: wanted.scanResponse)
    perform(first, on: index) { (self, _) in
      self.perform(second, on: index, isNext: true) { (self, _) in
        if self.endings == endings { self.live?.parameters = parameters }
        self.live?.data = wanted.data
        self.live?.scanResponse = wanted.scanResponse
        self.succeeded(wanted)
      }
    }
  }

  private func succeeded(_ payload: Payload) {
    if wanted != nil { tell(payload.advertisement) }
    attempts.succeeded()
  }

  /// Performs one step of an attempt; a failure ends the attempt.
  private func perform<Command: ManagementCommand>(
    _ command: Command, on index: UInt16, isNext: Bool = false,
    then: @escaping @LoopActor (ManagedSlot, Command.Reply) -> Void
  ) {
    let answered: @LoopActor (Result<Command.Reply, ManagementSocket.Failure>) -> Void = attempts.inAttempt {
      [weak self] result in
      guard let self else { return }
      switch result {
      case .success(let reply): then(self, reply)
      case .failure(let failure):
        Log.shared.debug("Management command \(Command.opcode) failed: \(failure.description)")
        failed(failure)
      }
    }
    socket.call(command, on: index, isNext: isNext, then: answered)
  }

  /// Handles a failure. The instance that existed before was removed for this attempt.
  private func failed(_ failure: ManagementSocket.Failure) {
    tell(nil)
    switch failure {
    case .refused(.busy) where attempts.isFresh: attempts.failed()
    // bluetoothd will report the change of the adapter; the attempt is then repeated.
    case .refused(.invalidIndex), .refused(.notPowered): attempts.failed()
    // The controller has fewer advertising sets than the kernel has instances: the kernel uses one for a discoverable
    // adapter.
    case .refused(.noResources): attempts.failed(RegistrationWords.noRoom)
    case .closed:
      attempts.failed("The management socket is closed, so the advertisement is not sent: systemctl restart earshotd.")
    default: attempts.failed("The kernel refuses to advertise on \(adapter) (\(failure)). The service tries again.")
    }
  }

  private var adapter: String { attempts.place?.adapter.lastElement ?? "" }
}
