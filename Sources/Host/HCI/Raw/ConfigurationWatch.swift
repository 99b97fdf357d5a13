import Bytes
import Journal
import Loop
import Radio

/// The socket of a `ConfigurationWatch`. In a program it is an `HCISocket`.
@LoopActor
public protocol ConfigurationSocket: AnyObject {
  /// Sets filters that pass disconnection events and data that may be a CCCD write. It needs CAP_NET_RAW.
  func listenToConfigurations() throws(HCIError)

  /// Receives one packet of at most `limit` bytes, without blocking.
  func receive(limit: Int) -> HCISocket.Arrival

  /// Calls `body` when packets can be received, for the lifetime of the registration.
  func watch(_ body: @escaping @LoopActor () -> Void) -> Registration
}

extension HCISocket: ConfigurationSocket {
  public func listenToConfigurations() throws(HCIError) {
    // The packet filter is set first: without it the socket would receive all data of the peers.
    try admit(ConfigurationWrite.program)
    try listen(to: HCIFilter(events: [ControllerEvent.disconnectionComplete], passesData: true))
  }
}

/// The last write of each client of one controller to each CCCD, read from the packets between controller and kernel.
///
/// bluetoothd does not report these writes. Before 5.76 it reports only the first subscription and the end of the last
/// one, and never the end after a client changed from notifications to indications. From 5.76 on it does not report
/// the end of a subscription that ended before the program answered `AcquireNotify`. Facts: bluez.md section 14.
@LoopActor
final class ConfigurationWatch {
  /// Maximum attributes per link whose last write is stored. The services have fewer.
  static let limit = 64
  /// Maximum packets that are received in one loop iteration.
  private static let turnLimit = 64

  private let socket: any ConfigurationSocket
  private var registration: Registration?
  private var writes: [UInt16: [UInt16: LastConfiguration]] = [:]
  private var count: UInt64 = 0
  private let onWrite: @LoopActor (ConfigurationWrite) -> Void

  /// - Parameter onWrite: called with each stored write, in a later loop iteration.
  init(
    _ socket: any ConfigurationSocket, _ privilege: RawPrivilege,
    onWrite: @escaping @LoopActor (ConfigurationWrite) -> Void
  ) throws(HCIError) {
    self.socket = socket
    self.onWrite = onWrite
    try privilege { () throws(HCIError) in try socket.listenToConfigurations() }
    registration = socket.watch { [weak self] in self?.take() }
  }

  /// The last write to `attribute` on the link with the handle `link`; nil if there was none since the watch began.
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
        Log.shared.debug("CCCD writes can no longer be observed: \(error)")
        (registration, writes) = (nil, [:])
      }
    }
  }

  private func handle(_ bytes: [UInt8]) {
    if let write = try? ConfigurationWrite(reading: bytes) { return note(write) }
    if case .disconnected(let link)? = try? ControllerEvent(reading: bytes) { writes[link] = nil }
  }

  private func note(_ write: ConfigurationWrite) {
    // bluetoothd refuses any other value, and does not change the stored one.
    guard let configuration = ClientConfiguration(rawValue: write.value) else { return }
    guard writes[write.link] != nil || writes.count < HCILink.limit else { return }
    let known = writes[write.link]
    guard known?[write.attribute] != nil || known?.count ?? 0 < Self.limit else { return }
    count += 1
    writes[write.link, default: [:]][write.attribute] = LastConfiguration(configuration, number: count)
    EventLoop.shared.soon { [onWrite] in onWrite(write) }
  }
}

/// The last write of a client to a CCCD.
public struct LastConfiguration: Hashable, Sendable {
  public var configuration: ClientConfiguration
  /// Sequence number of this write among the received CCCD writes of all clients. A later write has a larger number.
  public var number: UInt64

  public init(_ configuration: ClientConfiguration, number: UInt64) {
    self.configuration = configuration
    self.number = number
  }
}

/// A client's write to a CCCD: controller, address, attribute handle and value.
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
