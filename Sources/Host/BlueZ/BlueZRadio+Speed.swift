import Journal
import Loop
import Radio

/// The speed of new links, which is the adapter's for all programs: `LinkSpeed` has it for as long as an application wants it.
extension BlueZRadio {
  /// Takes on what a reload changed.
  public func prefer(_ links: LinkPreferences) { speed.prefer(links) }

  /// Gives back what the adapter had before, leaves no monitor behind, lets applications go that are about to, and calls `then` once: when that
  /// is done, after `limit` at the latest, or `linkEndTime` where that is longer.
  public func rest(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    let end = scheduler.now.advanced(by: limit)
    scanner.rest(within: limit) { [weak self] in
      guard let self else { return then() }
      speed.rest(within: max(.zero, scheduler.now.duration(to: end))) { [weak self] in
        if let self { afterLeaving(then) } else { then() }
      }
    }
  }

  /// An application came or went.
  func wishesMayHaveChanged() { speed.want(applications.values.contains(where: \.wantsFastLinks)) }

  /// What is wrong is in the status, and once in the journal.
  func speedChanged() {
    for sentence in speed.problems where toldSpeed.insert(sentence).inserted {
      log.warning("\(sentence)", id: .linksSlow)
    }
    statusMayHaveChanged()
  }
}
