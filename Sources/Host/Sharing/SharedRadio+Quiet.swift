import Loop
import Radio

/// Radio inhibit: while a service serves a peer, services of lower priority neither scan nor connect, and few new
/// advertisements begin.
extension SharedRadio {
  func askForQuiet(for tenant: LinkPlan.TenantID) -> Registration {
    let id = nextNumber()
    quiet[id] = plan.priority(of: tenant)
    plan(.serving(true))
    quietObservers.call()
    return Registration { [weak self] in
      guard let self, quiet.removeValue(forKey: id) != nil else { return }
      plan(.serving(!quiet.isEmpty))
      quietObservers.call()
    }
  }

  func isQuietWanted(by tenant: LinkPlan.TenantID) -> Bool {
    let own = plan.priority(of: tenant)
    return quiet.values.contains { $0 > own }
  }

  /// Reports only changes, in the next loop iteration, so that a service does not act within another service's call.
  func onQuiet(of tenant: LinkPlan.TenantID, _ handler: @escaping @LoopActor (Bool) -> Void) -> Registration {
    var told = isQuietWanted(by: tenant)
    return quietObservers.add { [weak self] in
      self?.scheduler.soon { [weak self] in
        guard let now = self?.isQuietWanted(by: tenant), now != told else { return }
        told = now
        handler(now)
      }
    }
  }
}
