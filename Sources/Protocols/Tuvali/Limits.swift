/// The numbers of the protocol. Facts: tuvali.md sections 2, 3, 5 and 7.
public enum Limits {
  /// Key bytes in the advertisement; the other 27 are in the scan response.
  public static let advertisedKeyBytes = 5
  /// What the name may take in the advertisement, in bytes of UTF-8.
  public static let nameBytes = 14
  /// Usable bytes of one write, however large the MTU.
  public static let writeBytes = 509
  /// The smallest ATT MTU with which a transfer is possible: 64 usable bytes.
  public static let minimumMTU = 67
  /// The MTU that both sides offer.
  public static let offeredMTU = 517
  /// Sequence numbers are signed 16 bit at the receiver.
  public static let chunks = 32_767
  /// Rounds of resending before the wallet gives up.
  public static let failureFrames = 15
  /// How often services that do not show up are looked for again.
  public static let discoveryRetries = 5
  /// The tag alone, and one byte more: no frame is shorter.
  public static let smallestFrame = 17
  /// The share of a frame's chunks that may be missing when the wallet asks for a report. Above it the Android verifier
  /// gives up, reckoning in double precision as we do: section 6, "70 % rule".
  static let toleratedMissing = 0.7
  /// Longest text of an invitation that is looked at.
  public static let invitationBytes = 512
  /// Bytes that gzip and the tag may add to `credential` bytes of incompressible text.
  public static func frameBytes(forCredential credential: Int) -> Int {
    credential + credential / 1000 + 64
  }
}
