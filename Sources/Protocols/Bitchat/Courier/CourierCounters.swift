import Common

/// What became of envelopes, in numbers.
public struct CourierCounters: Hashable, Sendable {
  /// Own letters that were given to somebody to carry.
  public var deposited: UInt64 = 0
  /// Envelopes of others that were taken to be carried.
  public var taken: UInt64 = 0
  /// Envelopes that were handed to their recipients over a link, and those that were sent to them over hops.
  public var handedOver: UInt64 = 0
  public var sentOverHops: UInt64 = 0
  /// Copies that others got, to carry them as well.
  public var copied: UInt64 = 0
  /// Envelopes for this node that were opened.
  public var opened: UInt64 = 0
  /// Envelopes for this node that cannot be opened, and those that are sealed for a prekey, of which it has none.
  public var notOpened: UInt64 = 0
  public var forPrekeys: UInt64 = 0
  /// Payloads that are no envelopes.
  public var malformed: UInt64 = 0
  /// Envelopes that came too late, that were carried to no end, and those that ask for a longer life than a day.
  public var tooLate: UInt64 = 0
  public var expired: UInt64 = 0
  public var tooLong: UInt64 = 0
  /// Envelopes that ask for more than eight copies. Eight count.
  public var tooManyCopies: UInt64 = 0
  /// Envelopes that were carried already.
  public var repeated: UInt64 = 0
  /// Envelopes that did not come straight from a known neighbour that has signed them.
  public var notOfNeighbours: UInt64 = 0
  /// Envelopes for which there was no place: of the same depositor, of strangers, or at all.
  public var tooManyOfDepositor: UInt64 = 0
  public var tooManyOfStrangers: UInt64 = 0
  public var noPlace: UInt64 = 0
  /// Envelopes that had to give way to others.
  public var droppedForOthers: UInt64 = 0

  public init() {}

  mutating func count(_ refusal: CourierBag.Refusal) {
    switch refusal {
    case .tooManyOfDepositor: tooManyOfDepositor += 1
    case .tooManyOfStrangers: tooManyOfStrangers += 1
    case .full: noPlace += 1
    }
  }

  /// All of them by name.
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
