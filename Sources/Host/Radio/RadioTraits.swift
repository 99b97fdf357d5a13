/// Limitations of a radio that services can take into account.
public struct RadioTraits: Hashable, Sendable {
  /// Whether the radio can address single clients: a value for one client reaches only that client, and is limited only
  /// by that client's MTU. Otherwise all subscribers receive it, each cut to its own MTU.
  public var keepsClientsApart = true
  /// Maximum bytes of a write without response that arrives completely.
  public var longestWrite = ATT.valueLimit
  /// Whether all advertisements of this service have had their own slots for half a minute. If a controller has few
  /// slots, services share them in turns.
  public var advertisesAll = true
  /// A sentence about reports of single packets whose bytes are altered, with the remedy; nil if packets are reported
  /// unaltered.
  public var packetShortfall: String?
  /// The reason why the requested single packets are not reported at present, with the remedy; nil if they are reported
  /// or not requested.
  public var deafness: String?
  /// The reason why peers cannot open streams to this machine although a service accepts them, with what to do; nil if
  /// they can, or if no service accepts streams.
  public var acceptingShortfall: String?
  /// The reason why this machine cannot open streams to peers, in a sentence for a person; nil if it can.
  public var connectingShortfall: String?
  /// Whether the adapter accepts BR/EDR connections from every peer that knows its public address, because a service
  /// accepts streams.
  public var isReachable = false
  /// Information that this machine discloses to everybody in range, each with the remedy, in sentences for a person.
  public var disclosures: [String] = []

  public init() {}
}
