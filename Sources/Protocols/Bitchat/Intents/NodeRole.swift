/// Role of a node in the mesh. This type alone defines what a relay does not do.
public enum NodeRole: Hashable, Sendable {
  /// Sends and receives messages, and relays those of others.
  case member
  /// Relays packets of others. It stores no messages, and answers no private ones.
  case relay

  /// Whether the node receives messages and files, and reports them to its user.
  var receives: Bool { self == .member }
  /// Whether the node sends private messages and files of its own.
  var sends: Bool { self == .member }
  /// Whether the node has conversations of its own: sessions that it begins, version hellos, questions for keys, and
  /// messages at couriers.
  var converses: Bool { self == .member }
  /// Whether the node stores public messages, and requests messages and fragments that it has missed.
  var storesMessages: Bool { self == .member }
  /// Whether announces state the node's neighbours and capabilities.
  var isDescribed: Bool { self == .member }

  /// Maximum envelopes that the node carries for others.
  ///
  /// - Parameter configured: limit in the configuration.
  func envelopeLimit(_ configured: Int) -> Int { self == .member ? configured : 0 }
}
