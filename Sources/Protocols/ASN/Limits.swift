/// Limits that are part of the protocol or of this implementation, and not settings.
public enum Limits {
  /// Length of a segment on the wire without its length field, in octets: at least a tag and one octet of plaintext.
  public static let segment = 17...4096
  /// Maximum plaintext of one segment, in octets.
  public static let segmentPlaintext = 4080
  /// The last counter value of a nonce. A counter is 16 bits and never wraps.
  public static let lastCounter: UInt32 = 65_535
  /// Maximum length of a command's arguments with the NUL between them, in octets.
  public static let argumentBytes = 64 * 1024
  /// Maximum number of arguments of a command.
  public static let arguments = 256
  /// Maximum length of a blob's name, in octets.
  public static let name = 255
  /// Minimum number of digits of an abbreviated user key.
  public static let userDigits = 4
  /// Minimum number of digits of an abbreviated sum.
  public static let sumDigits = 8
  /// Maximum blob size that a configuration may allow, in octets.
  public static let largestBlob = 16 * 1024 * 1024
  /// Maximum time by which a blob's epoch may be ahead of the server's clock, in nanoseconds.
  public static let epochAhead: UInt64 = 5 * 60 * 1_000_000_000
  /// Maximum number of sums in one removal, approval or fetch.
  public static let sumsInOneRequest = 16_384
  /// Maximum number of users, or blobs, that the server searches for the references of one request, if the references
  /// name none.
  public static let lookups = 16_384
  /// Number of names in directories that count as much as one user or blob in `lookups`.
  public static let namesInLookup = 16
  /// Maximum number of keys in a list of editors or subscribers.
  public static let keysInList = 16_384
  /// Maximum number of segments that the blobs of one request fill. A key has counter values for 32,767 segments; the
  /// others are for the acknowledgement and earlier segments.
  public static let streamedSegments = 30_000
  /// Number of flags that the store examines in one portion of `gc`.
  public static let flagsInPortion = 1024
  /// Number of octets that a link adds to the counted size of a store.
  public static let linkOctets: UInt64 = 512
  /// Maximum number of moderators of one owner; each gets a link to every message.
  public static let moderators = 64
  /// Number of octets by which the removals of users may exceed the limit of the store. Removals of the administrator
  /// may exceed it by twice this number.
  public static let removalReserve = 8 * 1024 * 1024
  /// Maximum length of a chain of removals in which each reverts the one before.
  public static let reversals = 64
  /// Number of entries that a session's trace may have.
  public static let trace = 1...1024
}
