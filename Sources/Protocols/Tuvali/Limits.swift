/// Protocol constants, and limits of this implementation. Facts: tuvali.md sections 2, 3, 5 and 7.
public enum Limits {
  /// Key bytes in the advertisement; the other 27 are in the scan response.
  public static let advertisedKeyBytes = 5
  /// Maximum length of the name in the advertisement, in bytes of UTF-8.
  public static let nameBytes = 14
  /// Usable bytes of one write, even with a larger MTU.
  public static let writeBytes = 509
  /// Minimum ATT MTU for a transfer: 64 usable bytes.
  public static let minimumMTU = 67
  /// MTU that both sides offer in the MTU exchange.
  public static let offeredMTU = 517
  /// Maximum chunks of a frame: the receiver reads sequence numbers as signed 16-bit integers.
  public static let chunks = 32_767
  /// Number of resending rounds after which the wallet fails.
  public static let failureFrames = 15
  /// Maximum repetitions of a discovery that did not find the service.
  public static let discoveryRetries = 5
  /// Minimum length of a frame, in bytes: the tag, and one byte.
  public static let smallestFrame = 17
  /// Fraction of a frame's chunks that may be missing at a report request. Above it the Android verifier fails; it
  /// computes in double precision, as this one does (section 6).
  static let toleratedMissing = 0.7
  /// Maximum text of an invitation that is parsed, in bytes.
  public static let invitationBytes = 512
  /// Maximum frame for `credential` bytes of incompressible text, including the overhead of gzip and tag, in bytes.
  public static func frameBytes(forCredential credential: Int) -> Int {
    credential + credential / 1000 + 64
  }
}
