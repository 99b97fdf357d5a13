/// Limitations of a radio that services can take into account.
public struct RadioTraits: Hashable, Sendable {
  /// Whether a value for one client reaches only that client, limited only by that client's MTU. Otherwise all
  /// subscribers receive it, each cut to its own MTU.
  public var keepsClientsApart = true
  /// Maximum bytes of a write without response that arrives completely.
  public var longestWrite = ATT.valueLimit
  /// Whether all advertisements of this service have had their own slots for half a minute. If a controller has few
  /// slots, services share them in turns.
  public var advertisesAll = true
  /// Limitation of single-packet reports that are altered, with what to do, in a sentence for a person; nil if there is
  /// none.
  public var packetShortfall: String?
  /// The reason why requested single packets are not reported now, with what to do; nil if they are.
  public var deafness: String?
  /// The reason why peers cannot open streams to this machine although a service accepts them, with what to do; nil if
  /// they can, or if no service accepts streams.
  public var acceptingShortfall: String?
  /// The reason why this machine cannot open streams to peers, in a sentence for a person; nil if it can.
  public var connectingShortfall: String?
  /// Whether every peer that knows the adapter's public address can connect to the adapter, because a service accepts
  /// streams.
  public var isReachable = false
  /// Information that this machine reveals to everybody in range, with what to do, in sentences for a person.
  public var disclosures: [String] = []

  public init() {}
}
