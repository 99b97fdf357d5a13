import Common

/// Health of a session. It decides which session loses its slot when all slots are in use and another wallet announces
/// a credential.
struct SessionHealth: Hashable, Sendable {
  /// Reason why a session loses its slot, the worst first.
  enum Fault: Hashable, Sendable {
    /// The session has made no progress for this time.
    case silent(Duration)
    /// Rate of the frame, in bytes per second.
    case slow(Int)
    /// Time since the wallet announced its first size.
    case old(Duration)

    /// A sentence about the fault, for the error of the ended session.
    var sentence: String {
      switch self {
      case .silent(let time): "There was no progress for \(time.components.seconds) s."
      case .slow(let rate): "The credential arrived at only \(rate) bytes a second."
      case .old(let time): "The transfer had lasted for \(time.components.seconds) s."
      }
    }

    /// Sort key, ascending from the worst.
    fileprivate var order: (kind: Int, extent: Duration, rate: Int) {
      switch self {
      case .silent(let time): (0, .zero - time, 0)
      case .slow(let rate): (1, .zero, rate)
      case .old(let time): (2, .zero - time, 0)
      }
    }
  }

  /// Limits within which a session does not lose its slot.
  struct Patience: Hashable, Sendable {
    /// Maximum time without progress, and minimum time before the rate is judged.
    var silence = Duration.seconds(5)
    /// Minimum rate, in bytes of the frame per second since the first size.
    var rate = 2000
    /// Maximum time since the wallet announced its first size.
    var age = Duration.seconds(30)
  }

  /// When the wallet announced its first size.
  var announcedAt: Instant
  /// When the session last made progress: its first size, or a chunk that made the frame longer than before.
  var progressAt: Instant
  /// Greatest number of bytes of the frame that were received at one time.
  var bytes: Int
  /// Whether the credential is stored. Only the age then counts against the session, because the wallet waits for a
  /// verdict.
  var isDelivered: Bool

  /// Worst fault of the session; nil if it does not lose its slot.
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
  /// - Returns: its index in `standings` and its fault; nil if no session loses its slot. A nil in `standings` is a
  ///   session that never loses its slot.
  static func worst(
    of standings: [SessionHealth?], _ patience: Patience = .init(), at now: Instant
  ) -> (index: Int, fault: Fault)? {
    let faults = standings.indices.compactMap { index in
      standings[index]?.fault(patience, at: now).map { (index: index, fault: $0) }
    }
    return faults.min { $0.fault.order < $1.fault.order }
  }
}
