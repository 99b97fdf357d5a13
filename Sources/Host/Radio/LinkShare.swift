/// What a service asks of the budget of links.
public struct LinkShare: Hashable, Sendable {
  /// Links that the service always finds room for while it serves or connects: others give way.
  public var needs: Int
  /// Of the links that it needs and does not have, as many find a place free at one time: one for a service whose peers come
  /// one after the other.
  public var spare: Int
  /// Links that the service may have at one time.
  public var may: Int
  /// Of two services that have more than they need, the one of lower priority gives a link up first.
  public var priority: Int

  /// The share of those who only look at the radio.
  public static let nothing = LinkShare(needs: 0, may: 0, priority: 0)

  public init(needs: Int, spare: Int = .max, may: Int, priority: Int) {
    self.needs = needs
    self.spare = spare
    self.may = may
    self.priority = priority
  }
}
