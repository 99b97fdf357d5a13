import Loop
import Radio
import Sharing

extension RadioDriver {
  /// Creates a `SharedRadio` on this driver, and a tenant of it for a single service.
  @LoopActor
  public func tenant(_ scheduler: any Scheduler, links: Int = 64) -> Tenant {
    var limits = LinkLimits()
    limits.links = links
    return SharedRadio(driver: self, scheduler: scheduler, limits: limits)
      .tenant("test", share: LinkShare(needs: 1, may: links, priority: 0))
  }
}
