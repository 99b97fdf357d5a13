import Common

/// How a visit stands when all places are taken and one more wallet is here: by this it is decided which visit gives way.
struct Standing: Hashable, Sendable {
  /// What a visit does wrong that it loses its place for, the worst first.
  enum Fault: Hashable, Sendable {
    /// There was no progress for so long.
    case silent(Duration)
    /// The frame comes with so many bytes a second.
    case slow(Int)
    /// The wallet identified itself so long ago.
    case old(Duration)

    /// What happened, as a sentence.
    var sentence: String {
      switch self {
      case .silent(let time): "There was no progress for \(time.components.seconds) s."
      case .slow(let rate): "The credential came with \(rate) bytes a second."
      case .old(let time): "The visit had lasted for \(time.components.seconds) s."
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

  /// What a visit may do without losing its place.
  struct Patience: Hashable, Sendable {
    /// The longest time without progress. A rate is looked at after the same time.
    var silence = Duration.seconds(5)
    /// The least rate, in bytes of the frame a second, from the size on.
    var rate = 2000
    /// The longest time from the Identify on.
    var age = Duration.seconds(30)
  }

  var identifiedAt: Instant
  /// When the wallet announced its first size; nil before.
  var announcedAt: Instant?
  /// The last sign of life.
  var progressAt: Instant
  /// The most bytes of the frame that were here.
  var bytes: Int
  /// Whether the credential is kept: only its age counts against the visit, because the wallet waits for a verdict.
  var isDelivered: Bool

  /// The worst that there is against the visit; nil when it keeps its place.
  func fault(_ patience: Patience = .init(), at now: Instant) -> Fault? {
    let (age, silence) = (identifiedAt.duration(to: now), progressAt.duration(to: now))
    if !isDelivered, silence >= patience.silence { return .silent(silence) }
    if !isDelivered, let announcedAt {
      let elapsed = announcedAt.duration(to: now)
      let milliseconds = Int(elapsed.wholeNanoseconds / 1_000_000)
      let rate = bytes * 1000 / max(1, milliseconds)
      if elapsed >= patience.silence, rate < patience.rate { return .slow(rate) }
    }
    return age > patience.age ? .old(age) : nil
  }

  /// The visit that gives way: the one with the worst fault, of several alike the first.
  ///
  /// - Returns: its index in `standings` and its fault; nil when every visit keeps its place. A nil in `standings` is a visit
  ///   that keeps its place in any case.
  static func worst(
    of standings: [Standing?], _ patience: Patience = .init(), at now: Instant
  ) -> (index: Int, fault: Fault)? {
    let faults = standings.indices.compactMap { index in
      standings[index]?.fault(patience, at: now).map { (index: index, fault: $0) }
    }
    return faults.min { $0.fault.order < $1.fault.order }
  }
}
