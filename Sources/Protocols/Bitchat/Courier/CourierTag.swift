import Crypto

/// Names the recipient of an envelope to peers that know its Noise key. First 16 bytes of HMAC-SHA256(Noise key,
/// "bitchat-courier-tag-v1" and the day in four bytes, big endian). Facts: bitchat.md section 8.5.
///
/// The tag changes daily. A courier cannot link it to a peer before that peer announces itself.
public struct CourierTag: Hashable, Sendable {
  public static let size = 16

  /// 16 bytes.
  public let bytes: [UInt8]

  /// Computes the tag of the owner of `key` on a day.
  ///
  /// - Parameter day: days since 1970.
  public init(for key: X25519.PublicKey, day: UInt32) {
    let message = Array("bitchat-courier-tag-v1".utf8) + withUnsafeBytes(of: day.bigEndian, Array.init)
    bytes = Array(HMACSHA256.authenticationCode(for: message, key: key.bytes).prefix(Self.size))
  }

  /// Reads a tag. Nil if it is not 16 bytes long.
  init?(_ bytes: some Collection<UInt8>) {
    guard bytes.count == Self.size else { return nil }
    self.bytes = Array(bytes)
  }

  /// Day of a time in milliseconds since 1970.
  public static func day(of time: UInt64) -> UInt32 { UInt32(clamping: time / 86_400_000) }

  /// Tags of the owner of `key` for yesterday, today and tomorrow, because clocks differ and envelopes travel.
  ///
  /// - Parameter time: milliseconds since 1970.
  public static func near(_ time: UInt64, for key: X25519.PublicKey) -> [CourierTag] {
    let today = day(of: time)
    return [today == 0 ? today : today - 1, today, today == .max ? today : today + 1].map {
      CourierTag(for: key, day: $0)
    }
  }
}
