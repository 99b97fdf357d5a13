import Common

/// An envelope that this node carries for somebody else.
public struct CarriedEnvelope: Hashable, Sendable {
  public let id: CourierID
  /// As it would be given on now: with the copies that are left.
  public internal(set) var envelope: CourierEnvelope
  /// The peer that it came from.
  public let depositor: PeerID
  /// Whether that peer was a favourite then.
  public let isOfFavourite: Bool
  /// The mark of the device that deposited it; nil if unknown.
  public let via: UInt32?
  /// Milliseconds since 1970.
  public let storedAt: UInt64
  /// The peers that it was given to, to be carried as well.
  public internal(set) var givenTo: [PeerID]
  /// The place in the order in which envelopes came in this run.
  var number: UInt64 = 0
  /// When it was sent to its recipient last, and how often over a link of the recipient's own. The next run does not know.
  var sentAt: Instant?
  var handed = 0
  /// The links that it was last sent over.
  var sentOver: Set<LinkID> = []

  public init(
    envelope: CourierEnvelope, depositor: PeerID, isOfFavourite: Bool, storedAt: UInt64, givenTo: [PeerID] = [],
    via: UInt32? = nil
  ) {
    id = CourierID(of: envelope)
    self.envelope = envelope.with(copies: envelope.allowedCopies)
    self.depositor = depositor
    self.isOfFavourite = isOfFavourite
    self.storedAt = storedAt
    self.givenTo = givenTo
    self.via = via
  }

  /// What it takes up, in bytes.
  var size: Int { envelope.ciphertext.count + 128 }
}

extension CarriedEnvelope: CustomStringConvertible, CustomReflectable {
  public var description: String { "<envelope>" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}
