import Crypto

/// Whose an envelope of the courier is, for those who know that peer already: the first 16 bytes of
/// HMAC-SHA256(Noise key, "bitchat-courier-tag-v1" and the day in four bytes, big endian). Facts: bitchat.md section 8.5.
///
/// Each day a peer has another tag. Whoever carries an envelope cannot tell whose it is before its owner announces itself.
public struct CourierTag: Hashable, Sendable {
  public static let size = 16

  /// 16 of them.
  public let bytes: [UInt8]

  /// The tag of the owner of `key` on a day.
  ///
  /// - Parameter day: days since 1970.
  public init(for key: X25519.PublicKey, day: UInt32) {
    let message = Array("bitchat-courier-tag-v1".utf8) + withUnsafeBytes(of: day.bigEndian, Array.init)
    bytes = Array(HMACSHA256.authenticationCode(for: message, key: key.bytes).prefix(Self.size))
  }

  /// A tag as it came; nil if it has another length.
  init?(_ bytes: some Collection<UInt8>) {
    guard bytes.count == Self.size else { return nil }
    self.bytes = Array(bytes)
  }

  /// The day of a time in milliseconds since 1970.
  public static func day(of time: UInt64) -> UInt32 { UInt32(clamping: time / 86_400_000) }

  /// The tags that the owner of `key` may have now: those of yesterday, today and tomorrow, because clocks differ and letters travel.
  ///
  /// - Parameter time: milliseconds since 1970.
  public static func near(_ time: UInt64, for key: X25519.PublicKey) -> [CourierTag] {
    let today = day(of: time)
    return [today == 0 ? today : today - 1, today, today == .max ? today : today + 1].map {
      CourierTag(for: key, day: $0)
    }
  }
}
