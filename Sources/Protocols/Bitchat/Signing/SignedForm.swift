/// In which form of the payload a signature holds. Facts: bitchat.md section 2.1.
///
/// A sender signs compressed bytes, and relays compress again with an encoder of their own. So a verifier tries what was
/// received, and then what the usual encoders make of the payload.
public enum SignedForm: CaseIterable, Hashable, Sendable {
  /// The bytes that came.
  case received
  /// The payload deflated at zlib's level 6.
  case level6
  /// The payload deflated at zlib's level 5.
  case level5
  /// The payload as it is.
  case plain
}
