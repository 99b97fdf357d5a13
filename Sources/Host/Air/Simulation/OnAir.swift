import Common
import Loop
import Radio

/// A running advertisement: bytes that are repeated at an interval.
@LoopActor
final class OnAir {
  /// The minimum interval of a legacy advertisement (Core 5.4 Vol 6 Part B 4.4.2.2).
  static let shortestInterval = Duration.milliseconds(20)

  let node: AirRadio
  /// The time of the first advertising event.
  let start: Instant
  private let interval: Duration
  /// The separate address of an advertisement that is not connectable; nil if it uses the node's address.
  private let ownAddress: BluetoothAddress?
  private(set) var content: EncodedAdvertisement
  /// The next event that a scanner receives, if it is scheduled.
  var heard: (at: Instant, ticket: TimedQueue.Ticket)?

  /// The scan result of this advertisement, without a signal strength.
  private(set) var scanResult: ScanResult
  /// The packets of one advertising event, without a signal strength and a time.
  private(set) var packets: [AdvertisingPacket]
  /// A number that is equal for two advertisements if and only if a scanner cannot distinguish them.
  private(set) var fingerprint: UInt64

  init(
    node: AirRadio, _ content: EncodedAdvertisement, start: Instant, ownAddress: BluetoothAddress? = nil
  ) {
    self.node = node
    self.ownAddress = ownAddress
    self.content = content
    self.start = start
    interval = max(content.interval, Self.shortestInterval)
    (scanResult, packets, fingerprint) = Self.describe(
      content, ownAddress ?? node.address, ownAddress == nil ? node.addressKind : .randomAddress)
  }

  var address: BluetoothAddress { ownAddress ?? node.address }

  /// Replaces the data without changing the times of the events.
  func change(to content: EncodedAdvertisement) {
    self.content = content
    describe()
  }

  /// Computes the scan result, the packets and the fingerprint again after the node's address has changed.
  func describe() {
    (scanResult, packets, fingerprint) = Self.describe(
      content, address, ownAddress == nil ? node.addressKind : .randomAddress)
  }

  /// The first advertising event at or after `now`.
  func nextEvent(from now: Instant) -> Instant {
    guard now > start else { return start }
    let step = interval.wholeNanoseconds
    let passed = start.duration(to: now).wholeNanoseconds
    return start.advanced(by: .nanoseconds((passed + step - 1) / step * step))
  }

  private static func describe(
    _ content: EncodedAdvertisement, _ address: BluetoothAddress, _ addressKind: AdvertisingPacket.AddressKind
  ) -> (ScanResult, [AdvertisingPacket], UInt64) {
    func packet(_ kind: AdvertisingPacket.Kind, _ data: [UInt8]) -> AdvertisingPacket {
      AdvertisingPacket(address: address, addressKind: addressKind, kind: kind, rssi: nil, time: .zero, data: data)
    }
    var packets = [packet(content.isConnectable ? .connectable : .nonConnectable, content.data)]
    if !content.scanResponse.isEmpty { packets.append(packet(.scanResponse, content.scanResponse)) }
    let scanResult = ScanResult(
      address: address, data: content.data, scanResponse: content.scanResponse, rssi: nil)
    return (scanResult, packets, fingerprint(address, content))
  }

  /// FNV-1a hash of everything that a scanner receives. Unlike `Hasher` it is equal in every run.
  private static func fingerprint(_ address: BluetoothAddress, _ content: EncodedAdvertisement) -> UInt64 {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    func mix(_ number: UInt64) { hash = (hash ^ number) &* 0x100_0000_01B3 }
    mix(address.value)
    for payload in [content.data, content.scanResponse] {
      mix(UInt64(payload.count))
      for byte in payload { mix(UInt64(byte)) }
    }
    return hash
  }
}
