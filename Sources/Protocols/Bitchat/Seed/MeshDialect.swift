/// Forms of the protocol that this node can use with a peer. Facts: bitchat.md section 16.1.
public enum MeshDialect: String, CaseIterable, Hashable, Sendable {
  /// Dialect L, which the apps use.
  case live
  /// Dialect S: packet types and layouts of the seed's document.
  case seed
}
