import Bytes
import Journal
import Loop
import Radio

/// The socket of a `ConfigurationWatch`. In a program it is an `HCISocket`.
@LoopActor
public protocol ConfigurationSocket: AnyObject {
  /// Lets through disconnections, and of the data what may be a write of a CCCD. It needs CAP_NET_RAW.
  func listenToConfigurations() throws(HCIError)

  /// Takes one packet of at most `limit` bytes, without waiting for it.
  func receive(limit: Int) -> HCISocket.Arrival

  /// Calls `body` while there is something to take, for as long as the registration lives.
  func watch(_ body: @escaping @LoopActor () -> Void) -> Registration
}

extension HCISocket: ConfigurationSocket {
  public func listenToConfigurations() throws(HCIError) {
    // In this order nothing else is ever received.
    try admit(ConfigurationWrite.program)
    try listen(to: HCIFilter(events: [ControllerEvent.disconnectionComplete], passesData: true))
  }
}

/// What the clients of one controller wrote last to each CCCD, read off the packets that the controller hands to the
/// kernel.
///
/// bluetoothd does not say it: before 5.76 it tells a program of the first subscriber and of the last one alone, and
/// that wrongly after a client went from notifications to indications; from 5.76 on it misses the end of a
/// subscription that ends before the program has answered `AcquireNotify`. Facts: bluez.md section 14.
@LoopActor
final class ConfigurationWatch {
  /// Attributes of one link of which the last write is kept: more than the services have.
  static let limit = 64
  /// Packets that are taken in one turn of the loop.
  private static let turnLimit = 64

  private let socket: any ConfigurationSocket
  private var registration: Registration?
  private var writes: [UInt16: [UInt16: LastConfiguration]] = [:]
  private var count: UInt64 = 0
  private let onWrite: @LoopActor (ConfigurationWrite) -> Void

  /// - Parameter onWrite: called with each write that is kept, in a later turn of the loop.
  init(
    _ socket: any ConfigurationSocket, _ privilege: RawPrivilege,
    onWrite: @escaping @LoopActor (ConfigurationWrite) -> Void
  ) throws(HCIError) {
    self.socket = socket
    self.onWrite = onWrite
    try privilege { () throws(HCIError) in try socket.listenToConfigurations() }
    registration = socket.watch { [weak self] in self?.take() }
  }

  /// What was written last to `attribute` on the link with the handle `link`; nil where nothing was since this began.
  func last(of attribute: UInt16, on link: UInt16) -> LastConfiguration? {
    take()
    return writes[link]?[attribute]
  }

  private func take() {
    for _ in 0..<Self.turnLimit where registration != nil {
      switch socket.receive(limit: ControllerEvent.limit) {
      case .packet(let bytes): handle(bytes)
      case .tooLong: break
      case .nothing: return
      case .broken(let error):
        Log.shared.debug("Writes of CCCDs are no longer seen: \(error)")
        (registration, writes) = (nil, [:])
      }
    }
  }

  private func handle(_ bytes: [UInt8]) {
    if let write = try? ConfigurationWrite(reading: bytes) { return note(write) }
    if case .disconnected(let link)? = try? ControllerEvent(reading: bytes) { writes[link] = nil }
  }

  private func note(_ write: ConfigurationWrite) {
    // bluetoothd refuses any other value, and keeps the one before.
    guard let configuration = ClientConfiguration(rawValue: write.value) else { return }
    guard writes[write.link] != nil || writes.count < HCILink.limit else { return }
    let known = writes[write.link]
    guard known?[write.attribute] != nil || known?.count ?? 0 < Self.limit else { return }
    count += 1
    writes[write.link, default: [:]][write.attribute] = LastConfiguration(configuration, number: count)
    EventLoop.shared.soon { [onWrite] in onWrite(write) }
  }
}

/// A client's last write of a CCCD.
public struct LastConfiguration: Hashable, Sendable {
  public var configuration: ClientConfiguration
  /// Which of all writes it was: where the number is the same the client has written nothing since.
  public var number: UInt64

  public init(_ configuration: ClientConfiguration, number: UInt64) {
    self.configuration = configuration
    self.number = number
  }
}

/// A client's write of a CCCD, as it was seen.
public struct SeenConfiguration: Hashable, Sendable {
  public var configuration: ClientConfiguration
  public var attribute: UInt16
  public var address: BluetoothAddress
  /// The index of the controller.
  public var index: UInt16

  public init(
    _ configuration: ClientConfiguration, of attribute: UInt16, by address: BluetoothAddress, on index: UInt16
  ) {
    self.configuration = configuration
    self.attribute = attribute
    self.address = address
    self.index = index
  }
}
