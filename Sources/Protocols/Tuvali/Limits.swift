/// The numbers of the protocol, and the limits of this implementation. Facts: tuvali.md sections 2, 3, 5 and 7.
public enum Limits {
  /// Key bytes in the advertisement; the other 27 are in the scan response.
  public static let advertisedKeyBytes = 5
  /// The longest name that the advertisement has room for, in bytes of UTF-8.
  public static let nameBytes = 14
  /// The usable bytes of one write, however large the MTU.
  public static let writeBytes = 509
  /// The smallest ATT MTU with which a transfer is possible: 64 usable bytes.
  public static let minimumMTU = 67
  /// The MTU that both sides offer.
  public static let offeredMTU = 517
  /// The most chunks of a frame: the receiver reads sequence numbers as signed 16 bit.
  public static let chunks = 32_767
  /// After this many rounds of resending the wallet gives up.
  public static let failureFrames = 15
  /// How often the wallet looks again for a service that does not show up.
  public static let discoveryRetries = 5
  /// The shortest frame: the tag, and one byte.
  public static let smallestFrame = 17
  /// The share of a frame's chunks that may be missing when the wallet asks for a report. Above it the Android verifier
  /// gives up, reckoning in double precision as we do (section 6).
  static let toleratedMissing = 0.7
  /// The longest text of an invitation that is looked at, in bytes.
  public static let invitationBytes = 512
  /// The longest frame of `credential` bytes of text that does not compress: gzip and the tag add to them.
  public static func frameBytes(forCredential credential: Int) -> Int {
    credential + credential / 1000 + 64
  }
}
