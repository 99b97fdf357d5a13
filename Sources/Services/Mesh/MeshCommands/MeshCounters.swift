import DBus
import MeshViews
import Tool

/// Meanings of the mesh's counters.
enum MeshCounters {
  /// Sentence with the most important counters; nil if no frame was sent or received.
  static func summary(_ node: MeshView) -> String? {
    let (received, sent, relayed) = (
      node.counters["Frames"] ?? 0, node.counters["SentFrames"] ?? 0, node.counters["Relayed"] ?? 0
    )
    guard received + sent > 0 else { return nil }
    return "Since its start: \(received) frames received, \(sent) sent, \(relayed) packets relayed."
  }

  static let meanings = CounterMeanings(
    "mesh", MeshNames.path, MeshNames.interface, node.merging(noise) { $1 }.merging(courier) { $1 },
    others: "malformed packets with this error")

  private static let node: [String: String] = [
    "Frames": "frames received",
    "SentFrames": "frames that the radio took",
    "Duplicates": "packets of others that had been received before; in a mesh most are",
    "Echoes": "packets of this node that others relayed",
    "Relayed": "packets of others that this node relayed",
    "Superfluous": "packets that were not relayed, because others had relayed enough copies",
    "RelaysDropped": "packets that were not relayed for want of capacity",
    "DroppedFrames": "frames that were dropped in the full queue of a link",
    "UnreachableFrames": "frames that a link did not take: its peer was gone or had not subscribed",
    "Unsendable": "packets that a link takes neither whole nor in fragments",
    "Clock": "packets whose time is off by more than two minutes; check this machine's clock",
    "TooOld": "answers and files that are too old",
    "BadAnnounces": "announces that are malformed, or whose peer ID does not belong to their key",
    "OtherSigningKeys": "announces with another signing key than the peer's first one",
    "OldAnnounces": "announces that were older than one received before",
    "TooManyIdentities": "new peers that came too quickly after others",
    "RefusedBindings": "announces over a link that had changed its peer a short time before",
    "BadSignatures": "signatures that are not valid",
    "TooManySignatures": "signatures that were not checked, because there were too many",
    "TooManyUnverified": "packets that nobody can verify, over the limit of a link",
    "TooManyHandshakes": "handshake messages over the limit of a device in one conversation",
    "TooManyLines": "public messages that were dropped: over the limit of a sender or device",
    "LinesNotPassedOn": "public messages that were not relayed: over the limit of a sender or device",
    "TooMuchInflation": "compressed packets over the limit of a link",
    "ChatOfUnknown": "public messages whose sender did not announce itself in time",
    "Unreadable": "texts and payloads that cannot be read",
    "UnknownPayloads": "payloads inside Noise of an unknown type",
    "Blocked": "packets of blocked peers",
    "BadFragments": "fragments that contradict others, or are too many",
    "AbandonedFragments": "packets of which not all fragments came in time",
    "AnsweredRequests": "sync requests that were answered",
    "RefusedRequests": "sync requests that were not answered",
    "UnaskedAnswers": "packets that look like answers to a sync request that was not made",
    "RefusedFiles": "files of types that are not taken",
    "TooManyFiles": "files over the limit of their sender or link",
    "FilesNotKept": "files for which there was no capacity here or on the disk",
    "RefusedPings": "pings over the limit of a link",
    "UnaskedPongs": "answers to pings that were not sent, or no longer awaited",
    "SeedPackets": "packets of the seed dialect that were taken",
    "RefusedSeed": "packets of the seed dialect that were not taken",
    "Proofs": "peers that proved that a verification code is theirs",
    "WrongProofs": "peers that answered a verification with other keys",
    "MissingProofs": "verifications that were not answered",
    "UnaskedProofs": "answers to verifications that were not asked",
    "AnsweredChallenges": "verifications by others that this node answered",
    "StrangeChallenges": "verifications by others that meant another node",
    "LinesLeftOut": "journal lines that were not written: LinesPerPeer=",
    "ScanSeconds": "seconds of scanning that were asked of the radio",
    "AdvertiseSeconds": "seconds of advertising that were asked of the radio",
    "LinkSeconds": "seconds of links, all links together",
  ]

  private static let noise: [String: String] = [
    "NoiseBegun": "handshakes that this node began, each attempt",
    "NoiseAnswered": "handshakes that this node answered",
    "NoiseEstablished": "handshakes that led to a session",
    "NoiseReplaced": "sessions that replaced another one",
    "NoiseRekeys": "handshakes because a session was old",
    "NoiseRecoveries": "handshakes because messages could not be decrypted or were not answered",
    "NoiseTimedOut": "handshakes that were not completed in time",
    "NoiseEvicted": "sessions that were dropped for others",
    "NoiseDroppedUndecryptable": "messages that no key decrypts",
    "NoiseDroppedReplayed": "messages that had been decrypted before",
    "NoiseDroppedTooOld": "messages too old for the replay window",
    "NoiseDroppedNonceJump": "messages whose nonce is too far ahead",
    "NoiseDroppedEarlyLimit": "messages before the end of their handshake, over the limit",
    "NoiseDroppedTooLong": "messages over the longest length",
    "NoiseDroppedBadHandshake": "handshake messages that do not authenticate",
    "NoiseDroppedWeakKey": "handshake messages with an invalid public key",
    "NoiseDroppedWrongKey": "handshake messages with a static key that is not the sender's",
    "NoiseDroppedBadLength": "handshake messages of a wrong length",
    "NoiseDroppedTooManyBad": "handshake messages after too many bad ones",
    "NoiseDroppedOutOfTurn": "messages of a handshake that is not under way",
    "NoiseDroppedRepeated": "first messages that had been answered before",
    "NoiseDroppedCollision": "first messages while the peer has to answer ours",
    "NoiseDroppedOurselves": "messages that pretend to come from this node",
    "NoiseDroppedPeerRate": "handshakes over the limit with one peer, or under its name from one source",
    "NoiseDroppedRate": "handshakes over the limit in all, or of one source",
    "NoiseDroppedHalfOpenLimit": "first messages over the limit of open handshakes",
    "NoiseDroppedPushedOut": "handshakes that were dropped for others",
    "NoiseDroppedReplacedLately": "first messages of a peer whose session was replaced within the last 5 s",
  ]

  private static let courier: [String: String] = [
    "CourierDeposited": "own envelopes that were given to a courier",
    "CourierCopied": "copies of own envelopes that were given to further couriers",
    "CourierTaken": "envelopes of others that were taken",
    "CourierHandedOver": "envelopes of others that were delivered over a link",
    "CourierSentOverHops": "envelopes of others that were sent over hops",
    "CourierOpened": "envelopes for this node that were opened",
    "CourierNotOpened": "envelopes for this node that could not be opened",
    "CourierForPrekeys": "envelopes for this node that are sealed for a prekey, of which it has none",
    "CourierExpired": "envelopes that expired before they were delivered",
    "CourierDroppedForOthers": "envelopes that were dropped for others",
    "CourierMalformed": "envelopes that cannot be read",
    "CourierTooLate": "envelopes that had expired when they came",
    "CourierTooLong": "envelopes with a lifetime of more than a day",
    "CourierTooManyCopies": "envelopes that ask for more than eight copies; eight count",
    "CourierRepeated": "envelopes that this node carried already",
    "CourierNotOfNeighbours": "envelopes that did not come straight from a known neighbour",
    "CourierTooManyOfDepositor": "envelopes over the limit of one depositor",
    "CourierTooManyOfStrangers": "envelopes over the limit of strangers",
    "CourierNoPlace": "envelopes over the capacity of the courier store",
  ]
}
