import Journal
import Loop
import Radio

/// The speed of new links. It is a setting of the adapter for all programs, which `LinkSpeed` changes while an application needs it.
extension BlueZRadio {
  /// Applies preferences that a reload changed.
  public func prefer(_ links: LinkPreferences) { speed.prefer(links) }

  /// Restores the adapter's former settings, removes the advertisement monitor, waits for applications that are being removed, and calls
  /// `then` once. The call follows at the latest after `limit`, or after `linkEndTime` if that is longer.
  public func rest(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    let end = scheduler.now.advanced(by: limit)
    scanner.rest(within: limit) { [weak self] in
      guard let self else { return then() }
      speed.rest(within: max(.zero, scheduler.now.duration(to: end))) { [weak self] in
        if let self { afterLeaving(then) } else { then() }
      }
    }
  }

  /// An application was added or removed.
  func wishesMayHaveChanged() { speed.want(applications.values.contains(where: \.wantsFastLinks)) }

  /// Reports problems in the status, and each once in the journal.
  func speedChanged() {
    for sentence in speed.problems where toldSpeed.insert(sentence).inserted {
      log.warning("\(sentence)", id: .linksSlow)
    }
    statusMayHaveChanged()
  }
}
