import Common

/// Counters of courier envelopes.
public struct CourierCounters: Hashable, Sendable {
  /// Own messages deposited with a courier.
  public var deposited: UInt64 = 0
  /// Envelopes of others accepted for carrying.
  public var taken: UInt64 = 0
  /// Envelopes sent to their recipients over a direct link, and over several hops.
  public var handedOver: UInt64 = 0
  public var sentOverHops: UInt64 = 0
  /// Copies given to other couriers.
  public var copied: UInt64 = 0
  /// Envelopes for this node that were opened.
  public var opened: UInt64 = 0
  /// Envelopes for this node that cannot be opened, and those sealed for a prekey, which this node does not support.
  public var notOpened: UInt64 = 0
  public var forPrekeys: UInt64 = 0
  /// Payloads that are not valid envelopes.
  public var malformed: UInt64 = 0
  /// Envelopes that arrived expired, that expired while stored, and those with a lifetime over one day.
  public var tooLate: UInt64 = 0
  public var expired: UInt64 = 0
  public var tooLong: UInt64 = 0
  /// Envelopes that ask for more than eight copies. They are treated as eight.
  public var tooManyCopies: UInt64 = 0
  /// Envelopes that were already stored.
  public var repeated: UInt64 = 0
  /// Envelopes not received directly from a known neighbour that signed them.
  public var notOfNeighbours: UInt64 = 0
  /// Envelopes rejected because of a limit: per depositor, for strangers, or in all.
  public var tooManyOfDepositor: UInt64 = 0
  public var tooManyOfStrangers: UInt64 = 0
  public var noPlace: UInt64 = 0
  /// Envelopes evicted for others.
  public var droppedForOthers: UInt64 = 0

  public init() {}

  mutating func count(_ refusal: CourierBag.Refusal) {
    switch refusal {
    case .tooManyOfDepositor: tooManyOfDepositor += 1
    case .tooManyOfStrangers: tooManyOfStrangers += 1
    case .full: noPlace += 1
    }
  }

  /// All counters by name.
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
