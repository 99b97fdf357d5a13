import Common
import DBus
import Loop
import Network
import Radio
import Thali

/// The program that uses the radio for private presence: `earshot-presenced`. Only this program receives device
/// addresses.
@LoopActor
protocol PresenceSink: AnyObject {
  /// Reports a received advertisement of a peer.
  ///
  /// - Returns: false if the report was dropped, because the program has not answered earlier ones.
  func sighted(_ device: DeviceAddress, generation: UInt8) -> Bool
  /// Passes an RFCOMM link that a peer has opened. The receiver owns the descriptor of a stream socket.
  func accept(_ device: DeviceAddress, descriptor: Int32)
}

/// Bluetooth for private presence: it advertises, scans, and opens and accepts RFCOMM links for one program. It has no
/// key, and does not read the content of the links.
@LoopActor
public final class PresenceRadioService {
  enum Refusal: Error, Equatable {
    case stopped
    case radio(RadioError)
    case tooManyLinks
    case badAddress
    case noDescriptors(String)
  }

  /// The profile by which peers open links.
  nonisolated static let profile = StreamProfile(
    name: RFCOMMRecord.name, services: [RFCOMMRecord.service, RFCOMMRecord.phone])
  nonisolated static let terms = AdvertisingTerms(.presence)
  private static let interval = Duration.milliseconds(250)
  /// Bluetooth UUID of the advertisement.
  private static let service = BluetoothUUID(high: 0xB6A4_4AD1_D319_4B3A, low: 0x815D_8B80_5A47_FB51)

  private let radio: any Radio
  private let scheduler: any Scheduler
  private var settings: PresenceRadioSettings
  private weak var sink: (any PresenceSink)?
  private var isScanning = false
  private var generation: UInt8?
  private var isStopped = false
  private var statusWatch: Registration?

  private var advertising: Registration?
  /// The present advertisement: its generation, its address, and whether it has the literal form; nil if there is none.
  private var advertised: (generation: UInt8, address: BluetoothAddress, isLiteral: Bool)?
  private var advertisingProblem: String?
  private var accepting: Registration?
  private var acceptingProblem: String?
  private var scan: Registration?
  private var scanProblem: String?
  private var memory = GenerationFilter()

  private var relays: [Int: StreamRelay] = [:]
  private var attempts: [Int: Attempt] = [:]
  private var lastNumber = 0
  private var limit = ConnectionLimit<BluetoothAddress>.rfcommLinks
  private var refusals: [ConnectionRefusal: UInt64] = [:]
  private var counters = Counters()

  /// A link that is being opened.
  private struct Attempt {
    let registration: Registration
    /// The callback of `connect`.
    let then: @LoopActor (Result<Int32, Refusal>) -> Void
  }

  private struct Counters {
    var scanResults: UInt64 = 0
    var unanswered: UInt64 = 0
    var otherAdvertisements: UInt64 = 0
    var incoming: UInt64 = 0
    var outgoing: UInt64 = 0
    var failed: UInt64 = 0
    var fromPeers: UInt64 = 0
    var toPeers: UInt64 = 0
  }

  /// The connection to the bus of the program that uses the radio; nil without D-Bus.
  weak var bus: BusConnection?

  /// Notifies observers of a changed state.
  let changes = Observers<Void>()

  init(radio: any Radio, scheduler: any Scheduler, settings: PresenceRadioSettings) {
    (self.radio, self.scheduler, self.settings) = (radio, scheduler, settings)
  }

  // MARK: Start and stop

  public func begin() {
    statusWatch = radio.onStatus { [weak self] _ in self?.update() }
  }

  func apply(_ settings: PresenceRadioSettings) {
    self.settings = settings
    update()
  }

  public func stop() {
    isStopped = true
    detach()
    statusWatch = nil
  }

  // MARK: The program

  /// Whether a program uses the radio.
  var isAttached: Bool { sink != nil }

  /// Makes a program the receiver of scan results and links.
  func attach(_ sink: any PresenceSink) {
    self.sink = sink
    update()
  }

  /// Ends advertising, scanning and links of the program, because it has left the bus.
  func detach() {
    (sink, generation, isScanning) = (nil, nil, false)
    let abandoned = attempts.values
    attempts = [:]
    for attempt in abandoned {
      attempt.registration.cancel()
      attempt.then(.failure(.stopped))
    }
    for relay in relays.values { relay.close() }
    update()
  }

  func announce(_ generation: UInt8) throws(Refusal) {
    guard !isStopped else { throw .stopped }
    self.generation = generation
    update()
  }

  func silence() {
    generation = nil
    update()
  }

  func scan(_ isWanted: Bool) {
    isScanning = isWanted
    update()
  }

  // MARK: State

  var isAnnouncing: Bool { advertising != nil }

  /// Whether peers can open links.
  var isReachable: Bool {
    accepting != nil && radio.status.state != .waiting && radio.status.traits.acceptingShortfall == nil
  }

  /// Whether all requests of the program are fulfilled.
  var isComplete: Bool { reason.isEmpty }

  /// The missing parts and the remedy; empty if everything works.
  var reason: String {
    guard sink != nil else { return "" }
    let status = radio.status
    guard status.state != .waiting else { return status.reason }
    var missing = [scanProblem, status.traits.connectingShortfall]
    if generation != nil {
      missing += [advertisingProblem, acceptingProblem]
      if accepting != nil { missing.append(status.traits.acceptingShortfall) }
      if settings.reachable == .no { missing.append(Self.unreachable) }
    }
    return missing.compactMap { $0 }.joined(separator: " ")
  }

  private static let unreachable = "Nothing is announced by Bluetooth, because of Reachable=no of [PresenceRadio]."

  /// Number of open links.
  var links: Int { relays.count }

  var tallies: [Tally] {
    let open = relays.values.map(\.received)
    return [
      Tally("Sightings", counters.scanResults), Tally("SightingsTooFast", memory.tooFast),
      Tally("SightingsUnanswered", counters.unanswered),
      Tally("OtherAdvertisements", counters.otherAdvertisements),
      Tally("IncomingLinks", counters.incoming), Tally("OutgoingLinks", counters.outgoing),
      Tally("FailedLinks", counters.failed),
      Tally("BytesFromPeers", open.reduce(counters.fromPeers) { $0 &+ $1.link }),
      Tally("BytesToPeers", open.reduce(counters.toPeers) { $0 &+ $1.program }),
    ] + ConnectionRefusal.allCases.map { Tally("RFCOMM\($0.name)", refusals[$0, default: 0]) }
  }

  private func update() {
    updateScan()
    updateAccepting()
    updateAdvertising()
    changes.call()
  }

  private func updateAccepting() {
    guard generation != nil, settings.reachable == .auto else {
      (accepting, acceptingProblem) = (nil, nil)
      return
    }
    guard accepting == nil else { return }
    do throws(RadioError) {
      accepting = try radio.listen(on: Self.profile) { [weak self] in self?.accept($0) }
      acceptingProblem = nil
    } catch {
      acceptingProblem = error.sentence
    }
  }

  /// Advertises the present generation. Each generation is a new set, and therefore has a new address.
  private func updateAdvertising() {
    guard let generation, accepting != nil, let address = radio.publicAddress else {
      (advertising, advertised, advertisingProblem) = (nil, nil, nil)
      return
    }
    let wanted = (generation, address, settings.isLiteral)
    if let advertised, advertised == wanted { return }
    advertised = wanted
    advertising = nil
    let bytes = Thali.Advertisement.bytes(
      generation: generation, address: DeviceAddress(address.value), form: settings.isLiteral ? .literal : .recommended)
    let advertisement = RadioAdvertisement(
      .nonConnectable(.unique()), data: AdvertisingData(exactly: bytes), interval: Self.interval)
    do throws(RadioError) {
      advertising = try radio.advertise(advertisement, Self.terms, for: nil)
      advertisingProblem = nil
    } catch {
      advertisingProblem = error.sentence
    }
  }

  // MARK: Scanning

  /// The patterns for the AD structures of all forms (thali.md section 4).
  nonisolated static let patterns: [AdvertisingPattern] = {
    let prefix = Array(Thali.Advertisement.service.prefix(10))
    let lists = [UInt8(0x06), 0x07, 0x21].flatMap { type in
      [
        AdvertisingPattern(type: type, offset: 6, bytes: prefix.reversed()),
        AdvertisingPattern(type: type, offset: 0, bytes: prefix),
      ]
    }
    let company = Thali.Advertisement.company
    let head = [UInt8(truncatingIfNeeded: company), UInt8(truncatingIfNeeded: company >> 8), 0x02, 0x15]
    return lists + [AdvertisingPattern(type: 0xFF, offset: 0, bytes: head)]
  }()

  private func updateScan() {
    // Without the ability to open links, scan results would be useless, so the radio does not scan.
    guard isScanning, sink != nil, !isStopped, radio.status.traits.connectingShortfall == nil else {
      (scan, scanProblem) = (nil, nil)
      return
    }
    guard scan == nil else { return }
    do throws(RadioError) {
      scan = try radio.listen(for: Self.patterns) { [weak self] in self?.receive($0.data, from: $0.address) }
      scanProblem = nil
    } catch {
      scanWithoutPackets()
    }
  }

  /// Scans on a radio that reports no single packets.
  private func scanWithoutPackets() {
    do throws(RadioError) {
      scan = try radio.scan(for: [Self.service]) { [weak self] event in
        guard case .sighted(let scanResult) = event else { return }
        self?.receive(scanResult.data, from: scanResult.address)
      }
      scanProblem = nil
    } catch {
      scanProblem = error.sentence
    }
  }

  private func receive(_ data: [UInt8], from advertiser: BluetoothAddress) {
    guard case .beacons(let generation, let device) = Thali.Advertisement(reading: data) else {
      counters.otherAdvertisements += 1
      return
    }
    guard device.value != radio.publicAddress?.value,
      let version = memory.receive(device, generation, from: advertiser, at: scheduler.now)
    else { return }
    if sink?.sighted(device, generation: version) == false {
      counters.unanswered += 1
    } else {
      counters.scanResults += 1
    }
  }

  // MARK: Links

  private func accept(_ stream: any RadioStream) {
    do throws(ConnectionRefusal) {
      guard relays.count + attempts.count < Limits.rfcommLinks else { throw .tooMany }
      try limit.open(stream.address, at: scheduler.now)
    } catch {
      refusals[error, default: 0] += 1
      return stream.close()
    }
    let address = stream.address
    do throws(Refusal) {
      guard let sink else { throw .stopped }
      let descriptor = try relay(stream) { [weak self] in self?.limit.close(address) }
      counters.incoming += 1
      sink.accept(DeviceAddress(address.value), descriptor: descriptor)
    } catch {
      limit.close(address)
      counters.failed += 1
      stream.close()
    }
  }

  /// Opens a link to a peer.
  ///
  /// - Parameter then: called once, with the descriptor of a stream socket, which the receiver owns, or with the reason
  ///   for the failure.
  func connect(to device: DeviceAddress, then: @escaping @LoopActor (Result<Int32, Refusal>) -> Void) {
    guard !isStopped else { return then(.failure(.stopped)) }
    guard relays.count + attempts.count < Limits.rfcommLinks else { return then(.failure(.tooManyLinks)) }
    lastNumber += 1
    let number = lastNumber
    do throws(RadioError) {
      let registration = try radio.connect(to: BluetoothAddress(device.value), on: Self.profile) { [weak self] result in
        guard let self else { return then(.failure(.stopped)) }
        attempts[number] = nil
        opened(result, then)
      }
      attempts[number] = Attempt(registration: registration, then: then)
    } catch {
      counters.failed += 1
      then(.failure(.radio(error)))
    }
  }

  private func opened(
    _ result: Result<any RadioStream, RadioError>, _ then: @LoopActor (Result<Int32, Refusal>) -> Void
  ) {
    switch result {
    case .success(let stream):
      do throws(Refusal) {
        let descriptor = try relay(stream) {}
        counters.outgoing += 1
        then(.success(descriptor))
      } catch {
        counters.failed += 1
        stream.close()
        then(.failure(error))
      }
    case .failure(let error):
      counters.failed += 1
      then(.failure(.radio(error)))
    }
  }

  /// Joins a link with a new socket.
  ///
  /// - Returns: the descriptor of the program's end.
  private func relay(
    _ stream: any RadioStream, onEnd: @escaping @LoopActor () -> Void
  ) throws(Refusal) -> Int32 {
    let pair: (stream: SocketStream, other: Int32)
    do throws(NetworkError) {
      pair = try SocketStream.pair()
    } catch {
      throw .noDescriptors(error.sentence)
    }
    lastNumber += 1
    let number = lastNumber
    let relay = StreamRelay(stream, pair.stream, on: scheduler) { [weak self] in
      onEnd()
      self?.ended(number)
    }
    relays[number] = relay
    relay.begin()
    return pair.other
  }

  private func ended(_ number: Int) {
    guard let relay = relays.removeValue(forKey: number) else { return }
    counters.fromPeers &+= relay.received.link
    counters.toPeers &+= relay.received.program
  }
}

extension PresenceRadioService.Refusal {
  var sentence: String {
    switch self {
    case .stopped: "The service stops."
    case .radio(let error): error.sentence
    case .tooManyLinks: "\(Limits.rfcommLinks) links are open, and no more are possible."
    case .badAddress: "An address has the form 00:11:22:33:44:55."
    case .noDescriptors(let sentence): sentence
    }
  }
}
