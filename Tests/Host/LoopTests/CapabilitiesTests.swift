import Foundation
import Loop
import Testing

@Suite("Process capabilities")
struct CapabilitiesTests {
  /// Runs `body` on a thread of its own: capabilities belong to a thread, and no other thread needs those that are
  /// dropped here.
  private func onOwnThread<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
    await withCheckedContinuation { continuation in
      Thread.detachNewThread { continuation.resume(returning: body()) }
    }
  }

  @Test(
    "A dropped capability is not available, and a permitted one is effective only while it is used",
    .enabled(if: Capabilities.permitted.isSuperset(of: [.netAdmin, .netRaw]), "this user has no capabilities"))
  func give() async {
    let before = Capabilities.permitted
    let seen = await onOwnThread {
      var seen: [Bool] = []
      seen.append(Capabilities.give(up: .netAdmin, keepingAside: .netRaw))
      seen.append(Capabilities.permitted.contains(.netRaw) && !Capabilities.permitted.contains(.netAdmin))
      seen.append(Capabilities.effective.isDisjoint(with: [.netAdmin, .netRaw]))
      seen.append(Capabilities.using([.netAdmin, .netRaw]) { Capabilities.effective.contains(.netRaw) })
      seen.append(Capabilities.using(.netAdmin) { !Capabilities.effective.contains(.netAdmin) })
      seen.append(Capabilities.effective.isDisjoint(with: [.netAdmin, .netRaw]))
      seen.append(Capabilities.permitted.union([.netAdmin]) == before)
      return seen
    }
    #expect(seen == [Bool](repeating: true, count: 7))
    #expect(Capabilities.permitted == before)
  }

  @Test("Dropping capabilities that the process does not have succeeds")
  func none() async {
    let seen = await onOwnThread {
      _ = Capabilities.give(up: [.netAdmin, .netRaw])
      let isGone = Capabilities.permitted.isDisjoint(with: [.netAdmin, .netRaw])
      return [isGone, Capabilities.give(up: [.netAdmin], keepingAside: .netRaw), Capabilities.using(.netRaw) { true }]
    }
    #expect(seen == [true, true, true])
  }
}
