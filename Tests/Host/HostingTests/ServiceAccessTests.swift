import Testing

@testable import DBus
@testable import Hosting

@Suite("The access rule of the service's D-Bus interfaces")
struct ServiceAccessTests {
  @Test("Members of the group may do everything, viewers may observe, and others may read public items")
  func audiences() {
    let rule = ServiceAccess.rule(own: 900, group: 901, viewGroup: 902)
    func audience(_ uid: UInt32, _ groups: UInt32...) -> Audience {
      rule.audience(of: Credentials(uid: uid, pid: nil, gids: groups))
    }
    #expect(audience(0) == .group && audience(900) == .group && audience(1000, 901) == .group)
    #expect(audience(1000, 902) == .viewers && audience(1000, 901, 902) == .group)
    #expect(audience(1000, 903) == .everybody)
    let without = ServiceAccess.rule(own: 900, group: nil, viewGroup: nil)
    #expect(without.audience(of: Credentials(uid: 1000, pid: nil, gids: [901, 902])) == .everybody)
  }

  @Test("Each of the audiences group, viewers and everybody may see its own items and those of wider audiences")
  func order() {
    #expect(Audience.group.maySee(.group) && Audience.group.maySee(.viewers) && Audience.group.maySee(.everybody))
    #expect(!Audience.viewers.maySee(.group) && Audience.viewers.maySee(.viewers))
    #expect(!Audience.everybody.maySee(.viewers) && Audience.everybody.maySee(.everybody))
  }
}
