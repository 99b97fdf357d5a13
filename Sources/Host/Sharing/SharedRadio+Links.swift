import Common
import Radio

/// Links: passes the driver's reports to the plan, and performs the plan's actions.
extension SharedRadio {
  public func linkUp(_ link: DriverLink) { decide(.linkUp(link)) }

  public func linkChanged(_ link: LinkID, mtu: Int) { decide(.linkChanged(link, mtu: mtu)) }

  public func linkDown(_ link: LinkID) { decide(.linkDown(link)) }

  /// Sets the backlog of a link, if the service uses the link.
  func allow(_ backlog: Backlog, on link: LinkID, by tenant: LinkPlan.TenantID) {
    if plan.isUsed(link, by: tenant) { driver.allow(backlog, on: link) }
  }

  func perform(_ action: LinkPlan.Action) {
    switch action {
    case .open(let application, let link, let address, let since, let mtu):
      applications[application]?.opened(link, address, since: since, mtu: mtu)
    case .change(let application, let link, let mtu): applications[application]?.delegate?.linkChanged(link, mtu: mtu)
    case .close(.application(let application), let link): applications[application]?.closed(link, scheduler)
    case .close(.connection(let connection), _): letGo(connection)
    case .cut(let link): driver.cut(link)
    case .cutUnused(let link): cutUnused(link)
    case .attempt(let connection, let address): attempt(connection, address)
    case .giveUp(let connection, let reason): connections[connection]?.giveUp(reason)
    case .refuse(let connection, let reason): connections[connection]?.end(reason, scheduler)
    case .ask(let tenant, let links): ask(tenant, links)
    }
  }

  /// Ends an unused link that the peer made: any other link may belong to another program.
  private func cutUnused(_ link: LinkID) {
    guard driver.origin(of: link) == .peer else { return decide(.spared(link)) }
    decide(.cutting(link))
    driver.cut(link)
  }

  private func ask(_ id: LinkPlan.TenantID, _ links: [LinkID]) {
    guard let newest = links.last else { return }
    let choice = tenants[id]?.tenant?.linkWanted(links) ?? newest
    decide(.givenUp(links.contains(choice) ? choice : newest, id))
  }
}
