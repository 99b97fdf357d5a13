/// What a service asks of the budget of links.
public struct LinkShare: Hashable, Sendable {
  /// Links that the service always finds room for while it serves or connects: others give way.
  public var needs: Int
  /// Links that the service may have at one time.
  public var may: Int
  /// Of two services that have more than they need, the one of lower priority gives a link up first.
  public var priority: Int

  /// The share of those who only look at the radio.
  public static let nothing = LinkShare(needs: 0, may: 0, priority: 0)

  public init(needs: Int, may: Int, priority: Int) {
    self.needs = needs
    self.may = may
    self.priority = priority
  }
}
