import Bytes

/// Features of an app beyond chat, one bit each. Unknown bits are preserved. Facts: bitchat.md section 4.
///
/// Encoded as a little-endian number without trailing zero bytes, at least one byte long.
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
  /// The peer accepts private files and sends its state inside Noise. The iOS app opens a session with such a peer at
  /// once.
  public static let privateMedia = Capabilities(rawValue: 1 << 8)
  public static let privateMediaReceipts = Capabilities(rawValue: 1 << 9)

  /// Capabilities of this node, sent in announces and inside Noise. Add a bit only when the feature works: with
  /// `privateMedia` phones begin to send private files.
  public static let own: Capabilities = [.privateMedia, .privateMediaReceipts]

  /// Whether the announced bits show that the app carries envelopes of others.
  ///
  /// The iOS app and Earshot couriers set bits beyond `privateMedia` and bit 14 (changing peer IDs). The Android app,
  /// which does not carry envelopes, sets only these. Peers without bits are Earshot relays or apps older than
  /// couriers.
  package var showCourier: Bool { !subtracting([.privateMedia, Capabilities(rawValue: 1 << 14)]).isEmpty }

  /// Reads the first eight bytes; later bytes are ignored. Throws `badValue` if `bytes` is empty.
  package init(_ bytes: ArraySlice<UInt8>) throws(WireError) {
    guard !bytes.isEmpty else { throw .badValue("capabilities") }
    rawValue = LittleEndian.number(bytes)
  }

  package var bytes: [UInt8] { LittleEndian.bytes(rawValue) }
}

/// Numbers in the encoding of bit fields: little endian, without trailing zero bytes, at least one byte.
enum LittleEndian {
  /// Returns the number in the first eight bytes.
  package static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 {
    bytes.prefix(8).reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }

  package static func bytes(_ number: UInt64) -> [UInt8] {
    var bytes: [UInt8] = []
    var rest = number
    repeat {
      bytes.append(UInt8(truncatingIfNeeded: rest))
      rest >>= 8
    } while rest > 0
    return bytes
  }
}
