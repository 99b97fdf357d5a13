/// Form of the payload for which a signature is valid. Facts: bitchat.md section 2.1.
///
/// A sender signs compressed bytes, and relays recompress with their own encoders. A verifier therefore tries the
/// received form first, and then those of the usual encoders.
public enum SignedForm: CaseIterable, Hashable, Sendable {
  /// The received bytes.
  case received
  /// The payload deflated at zlib's level 6.
  case level6
  /// The payload deflated at zlib's level 5.
  case level5
  /// The uncompressed payload.
  case plain
}
