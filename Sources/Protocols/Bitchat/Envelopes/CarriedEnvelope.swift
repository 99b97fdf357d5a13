import BitchatWire
import Common
import Crypto

/// An envelope that this node carries for other peers.
public struct CarriedEnvelope: Hashable, Sendable {
  public let id: CourierID
  /// The envelope as it would be forwarded now, with the copies that are left.
  public internal(set) var envelope: CourierEnvelope
  /// Peer that gave the envelope to this node.
  public let depositor: PeerID
  /// Whether the depositor was a favourite when it deposited the envelope.
  public let isOfFavourite: Bool
  /// Mark of the device that deposited the envelope. Nil if unknown.
  public let via: UInt32?
  /// When this node accepted the envelope, in milliseconds since 1970.
  public let storedAt: UInt64
  /// Couriers to which this node has given a copy.
  public internal(set) var givenTo: [PeerID]
  /// Position in the order of arrival in this run.
  var number: UInt64 = 0
  /// Time when the envelope was last sent to the recipient. Not persisted.
  var sentAt: Instant?
  /// Number of hand-overs over an own link of the recipient. Not persisted.
  var handed = 0
  /// Links over which the envelope was last sent to the recipient.
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

  /// Bytes that the envelope counts towards the limit of the courier store.
  var size: Int { envelope.ciphertext.count + 128 }
}

extension CarriedEnvelope: CustomStringConvertible, CustomReflectable {
  public var description: String { "<envelope>" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}
