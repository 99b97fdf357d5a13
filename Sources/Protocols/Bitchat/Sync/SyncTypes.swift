import Bytes

/// Packet types that a sync request asks for, one bit each. Facts: bitchat.md section 9.
public struct SyncTypes: OptionSet, Hashable, Sendable {
  public let rawValue: UInt64

  public init(rawValue: UInt64) {
    self.rawValue = rawValue
  }

  public static let announce = SyncTypes(rawValue: 1 << 0)
  public static let message = SyncTypes(rawValue: 1 << 1)
  public static let leave = SyncTypes(rawValue: 1 << 2)
  public static let noiseHandshake = SyncTypes(rawValue: 1 << 3)
  public static let noiseEncrypted = SyncTypes(rawValue: 1 << 4)
  public static let fragment = SyncTypes(rawValue: 1 << 5)
  public static let requestSync = SyncTypes(rawValue: 1 << 6)
  public static let fileTransfer = SyncTypes(rawValue: 1 << 7)
  public static let boardPost = SyncTypes(rawValue: 1 << 8)
  public static let prekeyBundle = SyncTypes(rawValue: 1 << 9)
  public static let groupMessage = SyncTypes(rawValue: 1 << 10)

  /// Types of a request without the record, such as the Android app's.
  public static let usual: SyncTypes = [.announce, .message]

  /// Nil unless there are 1 to 8 bytes.
  init?(_ bytes: ArraySlice<UInt8>) {
    guard (1...8).contains(bytes.count) else { return nil }
    rawValue = LittleEndian.number(bytes)
  }

  var bytes: [UInt8] { LittleEndian.bytes(rawValue) }
}
