import Common

extension MeshEngine {
  /// What handshakes and sessions came to, and what was dropped of them, by name.
  public var noiseTallies: [Tally] { sessions.counters.tallies.map { Tally("Noise" + $0.name, $0.count) } }

  /// How often each thing happened since the engine was made.
  public struct Counters: Hashable, Sendable {
    /// Frames that came.
    public var frames: UInt64 = 0
    /// Frames that were no packets, by the name of the error.
    public var malformed: [String: UInt64] = [:]
    /// Copies of packets that had come before.
    public var duplicates: UInt64 = 0
    /// Own packets that came back.
    public var echoes: UInt64 = 0
    /// Packets whose time is off by too much.
    public var clock: UInt64 = 0
    /// Packets that answered a request and are too old all the same.
    public var tooOld: UInt64 = 0
    /// Announces that are none, or whose sender is not their key's.
    public var badAnnounces: UInt64 = 0
    /// Announces with another signing key than the peer's first one.
    public var otherSigningKeys: UInt64 = 0
    /// Announces that are older than one that came before.
    public var oldAnnounces: UInt64 = 0
    /// New peers that came too quickly after others.
    public var tooManyIdentities: UInt64 = 0
    /// Signatures that were not checked, because there were too many.
    public var tooManySignatures: UInt64 = 0
    public var badSignatures: UInt64 = 0
    /// Packets that nobody can verify, of which there were too many on one link.
    public var tooManyUnverified: UInt64 = 0
    /// Public messages that were dropped, and those that were not relayed, because there were too many from one sender, or over links
    /// of one origin.
    public var tooManyLines: UInt64 = 0
    public var linesNotPassedOn: UInt64 = 0
    /// Messages of handshakes that were dropped because one origin sent too many in one conversation, or for one peer.
    public var tooManyHandshakes: UInt64 = 0
    /// Packets that were not inflated, because there was too much of that on one link.
    public var tooMuchInflation: UInt64 = 0
    /// Announces over a link that has changed its peer a short time ago.
    public var refusedBindings: UInt64 = 0
    /// Chat whose sender did not announce itself in time, or for which there was no room to wait.
    public var chatOfUnknown: UInt64 = 0
    /// Texts and payloads that cannot be read.
    public var unreadable: UInt64 = 0
    /// Payloads inside Noise of a type that this node does not know.
    public var unknownPayloads: UInt64 = 0
    /// Packets of blocked peers.
    public var blocked: UInt64 = 0
    /// Fragments that contradicted the others of their packet, or were too many.
    public var badFragments: UInt64 = 0
    /// Packets of which not all fragments came in time, and those that gave way to others.
    public var abandonedFragments: UInt64 = 0
    /// Requests for sync that were not answered.
    public var refusedRequests: UInt64 = 0
    public var answeredRequests: UInt64 = 0
    /// Packets that look like answers to a request that was not made.
    public var unaskedAnswers: UInt64 = 0
    /// Packets of others that were passed on, and copies by which a relay became superfluous.
    public var relayed: UInt64 = 0
    public var superfluous: UInt64 = 0
    /// Packets that were relayed late, or once more, because a later copy reaches further.
    public var revived: UInt64 = 0
    /// Packets that were to be passed on, and went for want of room.
    public var relaysDropped: UInt64 = 0
    /// Files of kinds that are not taken, and those that are none.
    public var refusedFiles: UInt64 = 0
    /// Pings that were not answered, because there were too many.
    public var refusedPings: UInt64 = 0
    /// Answers to pings that were not sent, or are no longer waited for.
    public var unaskedPongs: UInt64 = 0
    /// Packets that some link takes neither whole nor in fragments.
    public var unsendable: UInt64 = 0
    /// Packets of dialect S that were taken, and those that were not.
    public var seedPackets: UInt64 = 0
    public var refusedSeed: UInt64 = 0
    /// Peers that proved that a verification code is theirs, those that answered wrongly, and those that did not answer.
    public var proofs: UInt64 = 0
    public var wrongProofs: UInt64 = 0
    public var missingProofs: UInt64 = 0
    /// Answers to questions that were not asked, or not of this peer, or are over.
    public var unaskedProofs: UInt64 = 0
    /// Challenges of peers that were answered, and those that meant somebody else.
    public var answeredChallenges: UInt64 = 0
    public var strangeChallenges: UInt64 = 0
    /// What became of envelopes.
    public var courier = CourierCounters()

    public init() {}

    mutating func count(_ error: PacketError) { malformed[error.name, default: 0] += 1 }

    /// All of them by name.
    public var tallies: [Tally] {
      [
        Tally("Frames", frames), Tally("Duplicates", duplicates), Tally("Echoes", echoes), Tally("Clock", clock),
        Tally("TooOld", tooOld),
        Tally("BadAnnounces", badAnnounces), Tally("OtherSigningKeys", otherSigningKeys),
        Tally("OldAnnounces", oldAnnounces), Tally("TooManyIdentities", tooManyIdentities),
        Tally("TooManySignatures", tooManySignatures), Tally("BadSignatures", badSignatures),
        Tally("TooManyUnverified", tooManyUnverified), Tally("TooManyHandshakes", tooManyHandshakes),
        Tally("TooManyLines", tooManyLines), Tally("LinesNotPassedOn", linesNotPassedOn),
        Tally("TooMuchInflation", tooMuchInflation),
        Tally("RefusedBindings", refusedBindings), Tally("ChatOfUnknown", chatOfUnknown),
        Tally("Unreadable", unreadable), Tally("UnknownPayloads", unknownPayloads), Tally("Blocked", blocked),
        Tally("BadFragments", badFragments), Tally("AbandonedFragments", abandonedFragments),
        Tally("RefusedRequests", refusedRequests),
        Tally("AnsweredRequests", answeredRequests), Tally("UnaskedAnswers", unaskedAnswers),
        Tally("Relayed", relayed), Tally("Superfluous", superfluous), Tally("Revived", revived),
        Tally("RelaysDropped", relaysDropped),
        Tally("Unsendable", unsendable), Tally("SeedPackets", seedPackets), Tally("RefusedSeed", refusedSeed),
        Tally("Proofs", proofs), Tally("WrongProofs", wrongProofs),
        Tally("MissingProofs", missingProofs), Tally("UnaskedProofs", unaskedProofs),
        Tally("AnsweredChallenges", answeredChallenges), Tally("StrangeChallenges", strangeChallenges),
        Tally("RefusedFiles", refusedFiles), Tally("RefusedPings", refusedPings), Tally("UnaskedPongs", unaskedPongs),
      ] + courier.tallies + malformed.sorted { $0.key < $1.key }.map { Tally($0.key, $0.value) }
    }
  }
}
