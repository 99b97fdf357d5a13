/// How a radio differs from what services wish for, where they can do something about it.
public struct RadioTraits: Hashable, Sendable {
  /// Whether a value for one client reaches that client alone, and is as long as that client's MTU lets it be. Without it all
  /// subscribers hear it, each cut to its own MTU.
  public var keepsClientsApart = true
  /// Bytes of the longest value that arrives when a client writes it without response.
  public var longestWrite = ATT.valueLimit
  /// Whether all advertisements of the service that asks have places of their own on the air, and have had them for half a minute:
  /// where a controller has few places they take turns with those of others.
  public var advertisesAll = true
  /// What is missing where single packets are told of but not as they came, with what to do about it, in a sentence for a person;
  /// nil where nothing is.
  public var packetShortfall: String?
  /// Why no single packet is told of for now although somebody listens, with what to do about it; nil where they are.
  public var deafness: String?
  /// What this machine tells everybody near by itself, with what to do about it, in sentences for a person.
  public var disclosures: [String] = []

  public init() {}
}
