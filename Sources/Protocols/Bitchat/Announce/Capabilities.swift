import Bytes

/// What an app can do beyond chat, one bit each. Bits without a name here are kept. Facts: bitchat.md section 4.
///
/// The bytes are the bits as a number, least significant byte first, without zero bytes at the end, and at least one byte.
public struct Capabilities: OptionSet, Hashable, Sendable {
  public let rawValue: UInt64

  public init(rawValue: UInt64) {
    self.rawValue = rawValue
  }

  public static let prekeys = Capabilities(rawValue: 1 << 0)
  public static let wifiBulk = Capabilities(rawValue: 1 << 1)
  public static let gateway = Capabilities(rawValue: 1 << 2)
  public static let groups = Capabilities(rawValue: 1 << 3)
  public static let board = Capabilities(rawValue: 1 << 4)
  public static let vouch = Capabilities(rawValue: 1 << 5)
  public static let meshDiagnostics = Capabilities(rawValue: 1 << 6)
  public static let bridge = Capabilities(rawValue: 1 << 7)
  /// The peer takes private files and tells its state inside Noise. The iOS app opens a session with such a peer at once.
  public static let privateMedia = Capabilities(rawValue: 1 << 8)
  public static let privateMediaReceipts = Capabilities(rawValue: 1 << 9)

  /// What this node can do, for its announces and for peers inside Noise. A bit belongs here when the node does what it says,
  /// and not before: with `privateMedia` phones begin to send private files.
  public static let own: Capabilities = [.privateMedia, .privateMediaReceipts]

  /// Whether an app with these carries letters of others, as far as an announce shows that. The iOS app and nodes of this kind
  /// that carry say more than the Android app, which carries none: that says private files, and later versions that they know
  /// changing peer IDs. Who says nothing is a relay of this kind, or older than couriers.
  var showCourier: Bool { !subtracting([.privateMedia, Capabilities(rawValue: 1 << 14)]).isEmpty }

  /// Reads the bits; those behind the eighth byte are passed over. Throws `badValue` if there is no byte.
  init(_ bytes: ArraySlice<UInt8>) throws(WireError) {
    guard !bytes.isEmpty else { throw .badValue("capabilities") }
    rawValue = LittleEndian.number(bytes)
  }

  var bytes: [UInt8] { LittleEndian.bytes(rawValue) }
}
