import BitchatWire
import Common

/// Event counters since the start of the engine.
public struct NodeCounters: Hashable, Sendable {
  /// Frames that were received over all links.
  public var frames: UInt64 = 0
  /// Malformed packets, by the name of the error.
  public var malformed: [String: UInt64] = [:]
  /// Packets of other nodes that had been received before.
  public var duplicates: UInt64 = 0
  /// Packets of this node that other nodes relayed back to it.
  public var echoes: UInt64 = 0
  /// Packets whose timestamp deviates too much from this node's clock.
  public var clock: UInt64 = 0
  /// Answers to sync requests that are too old.
  public var tooOld: UInt64 = 0
  /// Malformed announces, and those whose sender does not match their key.
  public var badAnnounces: UInt64 = 0
  /// Announces with another signing key than the peer's first one.
  public var otherSigningKeys: UInt64 = 0
  /// Announces older than an earlier one of the peer.
  public var oldAnnounces: UInt64 = 0
  /// New peers that were rejected because they came too fast.
  public var tooManyIdentities: UInt64 = 0
  /// Packets whose signatures were not checked because of a limit.
  public var tooManySignatures: UInt64 = 0
  public var badSignatures: UInt64 = 0
  /// Packets that cannot be verified, beyond the limit per link.
  public var tooManyUnverified: UInt64 = 0
  /// Public messages that were dropped or not relayed because of the limits per sender and per device.
  public var tooManyPublicMessages: UInt64 = 0
  public var publicMessagesNotRelayed: UInt64 = 0
  /// Handshake messages dropped because of the limits on one origin per conversation and per peer.
  public var tooManyHandshakes: UInt64 = 0
  /// Packets not inflated because of the limit per link.
  public var tooMuchInflation: UInt64 = 0
  /// Announces on a link whose peer changed shortly before.
  public var refusedBindings: UInt64 = 0
  /// Public messages whose sender did not announce itself in time, or that exceeded the buffer for messages of unknown
  /// senders.
  public var chatOfUnknown: UInt64 = 0
  /// Texts, and decrypted payloads, that cannot be decoded.
  public var unreadable: UInt64 = 0
  /// Decrypted Noise payloads whose type is unknown.
  public var unknownPayloads: UInt64 = 0
  /// Packets whose sender is blocked.
  public var blocked: UInt64 = 0
  /// Fragments that contradict others of their packet, or exceed a limit.
  public var badFragments: UInt64 = 0
  /// Incomplete packets that timed out or were evicted.
  public var abandonedFragments: UInt64 = 0
  /// Sync requests of neighbours that were refused: malformed, or over a limit.
  public var refusedRequests: UInt64 = 0
  /// Sync requests of neighbours that were answered.
  public var answeredRequests: UInt64 = 0
  /// Packets marked as sync answers without a request.
  public var unaskedAnswers: UInt64 = 0
  /// Packets of others that were relayed.
  public var relayed: UInt64 = 0
  /// Packets that were not relayed because enough copies arrived from other nodes.
  public var superfluous: UInt64 = 0
  /// Packets relayed late or again because a later copy reaches further.
  public var revived: UInt64 = 0
  /// Packets of others that were not relayed because a queue was full.
  public var relaysDropped: UInt64 = 0
  /// Malformed files, and files of types that are rejected.
  public var refusedFiles: UInt64 = 0
  /// Pings not answered because of a limit.
  public var refusedPings: UInt64 = 0
  /// Answers to pings that were not sent or have timed out.
  public var unaskedPongs: UInt64 = 0
  /// Packets that a link takes neither whole nor in fragments.
  public var unsendable: UInt64 = 0
  /// Packets of another dialect that were accepted.
  public var translatedPackets: UInt64 = 0
  /// Packets of another dialect that were rejected.
  public var refusedTranslations: UInt64 = 0
  /// Peers that proved the keys of their verification code.
  public var proofs: UInt64 = 0
  /// Peers that answered a challenge with other keys than those of the code.
  public var wrongProofs: UInt64 = 0
  /// Peers that answered none of this node's challenges.
  public var missingProofs: UInt64 = 0
  /// Answers to challenges that were not sent, went to another peer, or have timed out.
  public var unaskedProofs: UInt64 = 0
  /// Challenges of other nodes that were answered.
  public var answeredChallenges: UInt64 = 0
  /// Challenges that name the key of another node.
  public var strangeChallenges: UInt64 = 0
  /// Counters of courier envelopes.
  public var courier = CourierCounters()
  /// Counters of private messages that go over Nostr relays.
  public var uplink = UplinkCounters()

  public init() {}

  mutating func count(_ error: PacketError) { malformed[error.name, default: 0] += 1 }

  /// All counters of the engine with their names on D-Bus.
  public var tallies: [Tally] {
    [
      Tally("Frames", frames), Tally("Duplicates", duplicates), Tally("Echoes", echoes), Tally("Clock", clock),
      Tally("TooOld", tooOld),
      Tally("BadAnnounces", badAnnounces), Tally("OtherSigningKeys", otherSigningKeys),
      Tally("OldAnnounces", oldAnnounces), Tally("TooManyIdentities", tooManyIdentities),
      Tally("TooManySignatures", tooManySignatures), Tally("BadSignatures", badSignatures),
      Tally("TooManyUnverified", tooManyUnverified), Tally("TooManyHandshakes", tooManyHandshakes),
      Tally("TooManyPublicMessages", tooManyPublicMessages),
      Tally("PublicMessagesNotRelayed", publicMessagesNotRelayed),
      Tally("TooMuchInflation", tooMuchInflation),
      Tally("RefusedBindings", refusedBindings), Tally("ChatOfUnknown", chatOfUnknown),
      Tally("Unreadable", unreadable), Tally("UnknownPayloads", unknownPayloads), Tally("Blocked", blocked),
      Tally("BadFragments", badFragments), Tally("AbandonedFragments", abandonedFragments),
      Tally("RefusedRequests", refusedRequests),
      Tally("AnsweredRequests", answeredRequests), Tally("UnaskedAnswers", unaskedAnswers),
      Tally("Relayed", relayed), Tally("Superfluous", superfluous), Tally("Revived", revived),
      Tally("RelaysDropped", relaysDropped),
      Tally("Unsendable", unsendable),
      Tally("SeedPackets", translatedPackets), Tally("RefusedSeed", refusedTranslations),
      Tally("Proofs", proofs), Tally("WrongProofs", wrongProofs),
      Tally("MissingProofs", missingProofs), Tally("UnaskedProofs", unaskedProofs),
      Tally("AnsweredChallenges", answeredChallenges), Tally("StrangeChallenges", strangeChallenges),
      Tally("RefusedFiles", refusedFiles), Tally("RefusedPings", refusedPings), Tally("UnaskedPongs", unaskedPongs),
    ] + courier.tallies + uplink.tallies + malformed.sorted { $0.key < $1.key }.map { Tally($0.key, $0.value) }
  }
}

/// Counters of the envelopes that this node carries, deposits or receives.
public struct CourierCounters: Hashable, Sendable {
  /// Envelopes with messages of this node that were given to a courier.
  public var deposited: UInt64 = 0
  /// Envelopes of other peers that this node accepted to carry.
  public var taken: UInt64 = 0
  /// Envelopes sent to their recipients over a direct link.
  public var handedOver: UInt64 = 0
  /// Envelopes sent to their recipients over several hops.
  public var sentOverHops: UInt64 = 0
  /// Copies of this node's envelopes that were given to further couriers.
  public var copied: UInt64 = 0
  /// Envelopes for this node that were opened.
  public var opened: UInt64 = 0
  /// Envelopes for this node that cannot be opened.
  public var notOpened: UInt64 = 0
  /// Envelopes for this node that are sealed for a prekey, which this node does not support.
  public var forPrekeys: UInt64 = 0
  /// Payloads of courier packets that are not valid envelopes.
  public var malformed: UInt64 = 0
  /// Envelopes that had expired when they arrived.
  public var tooLate: UInt64 = 0
  /// Envelopes that expired while this node carried them.
  public var expired: UInt64 = 0
  /// Envelopes with a lifetime over one day.
  public var tooLong: UInt64 = 0
  /// Envelopes that ask for more than eight copies. They are treated as eight.
  public var tooManyCopies: UInt64 = 0
  /// Envelopes of others that were stored already when they arrived.
  public var repeated: UInt64 = 0
  /// Envelopes not received directly from a known neighbour that signed them.
  public var notOfNeighbours: UInt64 = 0
  /// Envelopes rejected because their depositor has reached its limit.
  public var tooManyOfDepositor: UInt64 = 0
  /// Envelopes rejected because the capacity for strangers is used up.
  public var tooManyOfStrangers: UInt64 = 0
  /// Envelopes rejected because the store is full.
  public var noPlace: UInt64 = 0
  /// Envelopes of others that were evicted from the full store for newer ones.
  public var droppedForOthers: UInt64 = 0

  public init() {}

  /// The counters of couriers with their names on D-Bus.
  public var tallies: [Tally] {
    [
      Tally("CourierDeposited", deposited), Tally("CourierTaken", taken), Tally("CourierHandedOver", handedOver),
      Tally("CourierSentOverHops", sentOverHops), Tally("CourierCopied", copied), Tally("CourierOpened", opened),
      Tally("CourierNotOpened", notOpened), Tally("CourierForPrekeys", forPrekeys),
      Tally("CourierMalformed", malformed), Tally("CourierTooLate", tooLate), Tally("CourierExpired", expired),
      Tally("CourierTooLong", tooLong), Tally("CourierTooManyCopies", tooManyCopies),
      Tally("CourierRepeated", repeated), Tally("CourierNotOfNeighbours", notOfNeighbours),
      Tally("CourierTooManyOfDepositor", tooManyOfDepositor),
      Tally("CourierTooManyOfStrangers", tooManyOfStrangers), Tally("CourierNoPlace", noPlace),
      Tally("CourierDroppedForOthers", droppedForOthers),
    ]
  }
}
