/// Role of a node in the mesh. This type alone defines what a relay and a mailbox do differently. The raw value is the
/// word in the configuration and on D-Bus.
public enum NodeRole: String, CaseIterable, Hashable, Sendable {
  /// Sends and receives messages, and relays those of others.
  case node
  /// Relays packets of others. It stores no messages, and answers no private ones.
  case relay
  /// A node that carries many courier envelopes.
  case mailbox

  /// Whether the node receives messages and files, and reports them to its user.
  public var receives: Bool { self != .relay }
  /// Whether the node sends messages and files of its own.
  public var sends: Bool { self != .relay }
  /// Whether the node has conversations of its own: sessions that it begins, version hellos, questions for keys,
  /// answers to challenges, and messages at couriers.
  public var converses: Bool { self != .relay }
  /// Whether the node stores messages, and requests messages and fragments that it has missed.
  public var storesMessages: Bool { self != .relay }
  /// Whether announces state the node's neighbours and capabilities.
  var isDescribed: Bool { self != .relay }

  /// Maximum envelopes that the node carries for others.
  ///
  /// - Parameter configured: limit in the configuration.
  func envelopeLimit(_ configured: Int) -> Int { self == .relay ? 0 : configured }

  /// Limit on envelopes in the configuration of a node with this role; nil for the engine's default.
  ///
  /// - Parameter mailbox: limit of a mailbox.
  public func configuredEnvelopes(ofMailbox mailbox: Int) -> Int? { self == .mailbox ? mailbox : nil }

  /// Memory for envelopes beyond that of a node, in bytes.
  public var courierBytes: Int { self == .mailbox ? 8 << 20 : 0 }
}
