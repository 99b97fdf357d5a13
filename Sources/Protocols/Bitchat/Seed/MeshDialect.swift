/// The two forms of the protocol that a peer can be spoken to in. Facts: bitchat.md section 16.1.
public enum MeshDialect: String, CaseIterable, Hashable, Sendable {
  /// Dialect L: what the apps speak.
  case live
  /// Dialect S: the numbers and layouts of the seed's document.
  case seed
}
