import Common

/// The health of a session. It decides which session loses its slot when all slots are in use and one more wallet
/// announces a credential.
struct Standing: Hashable, Sendable {
  /// Why a session loses its slot, the worst first.
  enum Fault: Hashable, Sendable {
    /// There was no progress for this time.
    case silent(Duration)
    /// The frame arrives at this rate, in bytes a second.
    case slow(Int)
    /// The wallet announced its first size this time ago.
    case old(Duration)

    /// What happened, as a sentence.
    var sentence: String {
      switch self {
      case .silent(let time): "There was no progress for \(time.components.seconds) s."
      case .slow(let rate): "The credential came with \(rate) bytes a second."
      case .old(let time): "The transfer had lasted for \(time.components.seconds) s."
      }
    }

    /// Ascending from the worst.
    fileprivate var order: (kind: Int, extent: Duration, rate: Int) {
      switch self {
      case .silent(let time): (0, .zero - time, 0)
      case .slow(let rate): (1, .zero, rate)
      case .old(let time): (2, .zero - time, 0)
      }
    }
  }

  /// The limits within which a session keeps its slot.
  struct Patience: Hashable, Sendable {
    /// The longest time without progress. The rate is measured from the same time on.
    var silence = Duration.seconds(5)
    /// The least rate, in bytes of the frame a second, from the size on.
    var rate = 2000
    /// The longest time from the first size on.
    var age = Duration.seconds(30)
  }

  /// When the wallet announced its first size.
  var announcedAt: Instant
  /// The last progress.
  var progressAt: Instant
  /// The most bytes of the frame that were here.
  var bytes: Int
  /// Whether the credential is kept: only its age counts against the visit, because the wallet waits for a verdict.
  var isDelivered: Bool

  /// The worst fault of the session; nil if it keeps its slot.
  func fault(_ patience: Patience = .init(), at now: Instant) -> Fault? {
    let (age, silence) = (announcedAt.duration(to: now), progressAt.duration(to: now))
    if !isDelivered, silence >= patience.silence { return .silent(silence) }
    if !isDelivered, age >= patience.silence {
      let milliseconds = Int(age.wholeNanoseconds / 1_000_000)
      let rate = bytes * 1000 / max(1, milliseconds)
      if rate < patience.rate { return .slow(rate) }
    }
    return age > patience.age ? .old(age) : nil
  }

  /// Finds the session that loses its slot: the one with the worst fault, or the first of those with equal faults.
  ///
  /// - Returns: its index in `standings` and its fault; nil when every session keeps its slot. A nil in `standings` is a
  ///   session that keeps its slot in any case.
  static func worst(
    of standings: [Standing?], _ patience: Patience = .init(), at now: Instant
  ) -> (index: Int, fault: Fault)? {
    let faults = standings.indices.compactMap { index in
      standings[index]?.fault(patience, at: now).map { (index: index, fault: $0) }
    }
    return faults.min { $0.fault.order < $1.fault.order }
  }
}
