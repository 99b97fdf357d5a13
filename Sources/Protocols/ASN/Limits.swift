/// The bounds that are part of the protocol or of this implementation, and not settings.
public enum Limits {
  /// Octets of a segment on the wire without its length: at least a tag and one octet of plaintext.
  public static let segment = 17...4096
  /// Octets of plaintext in one segment.
  public static let segmentPlaintext = 4080
  /// The last counter value of a nonce. A counter is 16 bits and never wraps.
  public static let lastCounter: UInt32 = 65_535
  /// Octets of a command's arguments, with the NUL between them.
  public static let argumentBytes = 64 * 1024
  /// Arguments of a command.
  public static let arguments = 256
  /// Octets of a blob's name.
  public static let name = 255
  /// Digits at least of an abbreviated user key.
  public static let userDigits = 4
  /// Digits at least of an abbreviated sum.
  public static let sumDigits = 8
  /// The largest blob that a configuration may allow.
  public static let largestBlob = 16 * 1024 * 1024
  /// Nanoseconds that a blob's epoch may be ahead of the server's clock.
  public static let epochAhead: UInt64 = 5 * 60 * 1_000_000_000
  /// Sums in one removal, approval or fetch.
  public static let sumsInOneRequest = 16_384
  /// Users, or blobs, that the references of one request may make the server look at, when they name none of them.
  public static let lookups = 16_384
  /// Names in directories that count as one such user or blob.
  public static let namesInLookup = 16
  /// Keys in one list of editors or subscribers that the server consults.
  public static let keysInList = 16_384
  /// Moderators of one owner: each gets a link to every message.
  public static let moderators = 64
  /// Octets by which the removals of users may exceed the limit of the store. Those of the administrator may exceed
  /// it by twice as many.
  public static let removalReserve = 8 * 1024 * 1024
  /// Removals that revert removals, one behind the other, that are followed.
  public static let reversals = 64
  /// Entries of a session's trace.
  public static let trace = 1...1024
}
