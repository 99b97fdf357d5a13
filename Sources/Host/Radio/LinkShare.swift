/// A service's requirements for links.
public struct LinkShare: Hashable, Sendable {
  /// Minimum links that are available to the service while it serves or connects: other services release links for it.
  public var needs: Int
  /// Maximum links that are reserved at one time for the missing ones of `needs`: one for a service whose peers connect
  /// one after the other.
  public var spare: Int
  /// Maximum links of the service.
  public var may: Int
  /// If several services exceed their minimum, the one of lowest priority releases a link first.
  public var priority: Int

  /// The share of tenants that only read the radio's state.
  public static let nothing = LinkShare(needs: 0, may: 0, priority: 0)

  public init(needs: Int, spare: Int = .max, may: Int, priority: Int) {
    self.needs = needs
    self.spare = spare
    self.may = may
    self.priority = priority
  }
}
