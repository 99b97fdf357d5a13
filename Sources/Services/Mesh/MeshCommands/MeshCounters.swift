import DBus
import MeshViews
import Tool

/// Sentences that explain each counter of the mesh.
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
    "mesh", MeshNames.path, MeshNames.interface,
    node.merging(noise) { $1 }.merging(courier) { $1 }.merging(uplink) { $1 },
    others: "malformed packets with this error")

  private static let node: [String: String] = [
    "Frames": "frames received",
    "SentFrames": "frames that the radio accepted for sending",
    "Duplicates": "packets of others received before; normal in a mesh",
    "Echoes": "packets of this node that others relayed",
    "Relayed": "packets of others that this node relayed",
    "Superfluous": "packets that were not relayed, because others had relayed enough copies",
    "Revived": "packets of others relayed late or again, because a later copy reaches further",
    "RelaysDropped": "packets that were not relayed because a queue was full",
    "DroppedFrames": "frames that were dropped in the full queue of a link",
    "UnreachableFrames": "frames that a link did not send: its peer was gone or had not subscribed",
    "Unsendable": "packets that were too long for a link, even in fragments",
    "Clock": "packets whose time is off by more than two minutes; check this machine's clock",
    "TooOld": "answers and files that are too old",
    "BadAnnounces": "announces that are malformed, or whose peer ID does not belong to their key",
    "OtherSigningKeys": "announces with another signing key than the peer's first one",
    "OldAnnounces": "announces that were older than one received before",
    "TooManyIdentities": "new peers over the rate limit",
    "RefusedBindings": "announces refused because their link had changed its peer shortly before",
    "BadSignatures": "signatures that are not valid",
    "TooManySignatures": "signatures not verified because the verification budget was exhausted",
    "TooManyUnverified": "packets that cannot be verified, over the limit of a link",
    "TooManyHandshakes": "handshake messages over the limit of a device in one conversation",
    "TooManyPublicMessages": "public messages that were dropped: over the limit of a sender or device",
    "PublicMessagesNotRelayed": "public messages that were not relayed: over the limit of a sender or device",
    "TooMuchInflation": "compressed packets over the limit of a link",
    "ChatOfUnknown": "public messages whose sender did not announce itself in time",
    "Unreadable": "texts and payloads that cannot be decoded",
    "UnknownPayloads": "payloads inside Noise of an unknown type",
    "Blocked": "packets of blocked peers",
    "BadFragments": "fragments that contradict others of their set, or exceed a limit",
    "AbandonedFragments": "packets whose fragments did not all arrive in time",
    "AnsweredRequests": "sync requests that were answered",
    "RefusedRequests": "sync requests that were not answered",
    "UnaskedAnswers": "packets marked as answers to a sync request that was not made",
    "RefusedFiles": "malformed files, and files of types that are not accepted",
    "TooManyFiles": "files over the limit of their sender or link",
    "FilesNotKept": "files not stored for lack of memory or disk space",
    "RefusedPings": "pings over the limit of a link",
    "UnaskedPongs": "answers to pings that were not sent, or no longer awaited",
    "SeedPackets": "packets of the seed dialect that were accepted",
    "RefusedSeed": "packets of the seed dialect that were refused",
    "Proofs": "peers that proved that a verification code is theirs",
    "WrongProofs": "peers that answered a verification with other keys than the code's",
    "MissingProofs": "verifications that were not answered",
    "UnaskedProofs": "answers to verifications that were not requested",
    "AnsweredChallenges": "verifications by others that this node answered",
    "StrangeChallenges": "verifications by others that were meant for another node",
    "LinesLeftOut": "journal lines that were not written, because of LinesPerPeer=",
    "ScanSeconds": "seconds of scanning that were requested from the radio",
    "AdvertiseSeconds": "seconds of advertising that were requested from the radio",
    "LinkSeconds": "seconds of connection, summed over all links",
  ]

  private static let noise: [String: String] = [
    "NoiseBegun": "attempts at a handshake that this node began",
    "NoiseAnswered": "handshakes that this node answered",
    "NoiseEstablished": "handshakes that led to a session",
    "NoiseReplaced": "sessions that replaced another one",
    "NoiseRekeys": "handshakes to replace an old session",
    "NoiseRecoveries": "handshakes because messages could not be decrypted or were not answered",
    "NoiseTimedOut": "handshakes that were not completed in time",
    "NoiseEvicted": "sessions that were evicted for others",
    "NoiseDroppedUndecryptable": "messages that no key decrypts",
    "NoiseDroppedReplayed": "messages that had been decrypted before",
    "NoiseDroppedTooOld": "messages too old for the replay window",
    "NoiseDroppedNonceJump": "messages whose nonce is too far ahead",
    "NoiseDroppedEarlyLimit": "messages that came before the end of their handshake and exceeded the limit",
    "NoiseDroppedTooLong": "messages over the maximum length",
    "NoiseDroppedBadHandshake": "handshake messages that do not authenticate",
    "NoiseDroppedWeakKey": "handshake messages with an invalid public key",
    "NoiseDroppedWrongKey": "handshake messages with a static key that is not the sender's",
    "NoiseDroppedBadLength": "handshake messages of a wrong length",
    "NoiseDroppedTooManyBad": "handshake messages that were dropped after too many invalid ones",
    "NoiseDroppedOutOfTurn": "handshake messages without a pending handshake",
    "NoiseDroppedRepeated": "first messages that had been answered before",
    "NoiseDroppedCollision": "first messages of a peer that has to answer this node's first message",
    "NoiseDroppedOurselves": "messages that claim to come from this node",
    "NoiseDroppedPeerRate": "handshakes over the limit for one peer: by this node, or by one source under its peer ID",
    "NoiseDroppedRate": "handshakes over the limit of one source, or of all sources together",
    "NoiseDroppedHalfOpenLimit": "first messages over the limit of half-open handshakes",
    "NoiseDroppedPushedOut": "handshakes that were evicted for others",
    "NoiseDroppedReplacedLately": "first messages of a peer whose session was replaced within the last 5 s",
  ]

  private static let uplink: [String: String] = [
    "UplinkOffered": "packets that were handed to the uplink",
    "UplinkTaken": "packets that the uplink has stored",
    "UplinkReceived": "messages and receipts that came over the uplink",
    "UplinkDroppedOtherText": "texts of the uplink that are not packets of the mesh",
    "UplinkDroppedUnopened": "packets of the uplink that their sender did not encrypt for this node",
    "UplinkDroppedMalformed": "malformed packets of the uplink",
    "UplinkDroppedUnexpected": "packets of the uplink that are not a message or a receipt for this node",
    "UplinkDroppedStranger": "packets of the uplink that are not of a favourite with this key",
    "UplinkDroppedBlocked": "packets of the uplink of blocked peers",
    "UplinkDroppedDate": "packets of the uplink that are too old, or from the future",
    "UplinkDroppedNotReady": "packets of the uplink that came while this node could not receive messages",
  ]

  private static let courier: [String: String] = [
    "CourierDeposited": "own envelopes that were given to a courier",
    "CourierCopied": "copies of own envelopes that were given to further couriers",
    "CourierTaken": "envelopes of others that were accepted",
    "CourierHandedOver": "envelopes of others that were delivered over a link",
    "CourierSentOverHops": "envelopes of others that were sent over several hops",
    "CourierOpened": "envelopes for this node that were opened",
    "CourierNotOpened": "envelopes for this node that could not be opened",
    "CourierForPrekeys": "envelopes for this node that are sealed for a prekey, of which it has none",
    "CourierExpired": "envelopes that expired before they were delivered",
    "CourierDroppedForOthers": "envelopes that were evicted for others",
    "CourierMalformed": "malformed envelopes",
    "CourierTooLate": "envelopes that had expired when they arrived",
    "CourierTooLong": "envelopes with a lifetime of more than a day",
    "CourierTooManyCopies": "envelopes that ask for more than eight copies; eight count",
    "CourierRepeated": "envelopes that this node carried already",
    "CourierNotOfNeighbours": "envelopes that did not come directly from a known neighbour",
    "CourierTooManyOfDepositor": "envelopes over the limit of one depositor",
    "CourierTooManyOfStrangers": "envelopes over the limit of strangers",
    "CourierNoPlace": "envelopes over the capacity of the courier store",
  ]
}
