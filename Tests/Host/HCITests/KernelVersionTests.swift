import HCI
import Testing

@Suite("Kernel versions with the fix of packet counts")
struct KernelVersionTests {
  @Test("The kernel version is that of its release, or on Debian that of its package")
  func reading() {
    let debian = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-07-13)"
    #expect(KernelVersion(release: "6.1.0-56-amd64", version: debian) == KernelVersion(6, 1, 192))
    let raspberry = "#1 SMP PREEMPT Debian 1:6.12.47-1+rpt1 (2025-09-16)"
    #expect(KernelVersion(release: "6.12.47+rpt-rpi-v8", version: raspberry) == KernelVersion(6, 12, 47))
    let ubuntu = "#79-Ubuntu SMP PREEMPT_DYNAMIC Tue Aug 12 14:42:46 UTC 2025"
    #expect(KernelVersion(release: "6.8.0-79-generic", version: ubuntu) == KernelVersion(6, 8, 0, .vendor))
    #expect(KernelVersion(release: "6.16.5-200.fc42.x86_64") == KernelVersion(6, 16, 5))
    #expect(KernelVersion(release: "6.17.0") == KernelVersion(6, 17, 0))
    #expect(KernelVersion(release: "6.17.0-rc3") == KernelVersion(6, 17, 0, .candidate))
    #expect(KernelVersion(release: "6.17-rc3") == KernelVersion(6, 17, 0, .candidate))
    let candidate = "#1 SMP Debian 6.17.1~rc2-1~exp1 (2025-10-01)"
    #expect(KernelVersion(release: "6.17-amd64", version: candidate) == KernelVersion(6, 17, 1, .candidate))
    #expect(KernelVersion(release: "6.1.0-9-amd64", version: "#1 SMP Debian") == KernelVersion(6, 1, 0, .vendor))
    #expect(KernelVersion(release: "6.18.44-fc-v669") == KernelVersion(6, 18, 44))
    for release in ["", "x", "6", "6.", "-6.1", "99999.1", ".6.1"] {
      #expect(KernelVersion(release: release) == nil, "\(release)")
    }
    #expect(KernelVersion.running != nil)
    #expect(KernelVersion(5, 15, 191) < KernelVersion(6, 1, 0) && KernelVersion(6, 1, 9) < KernelVersion(6, 1, 10))
  }

  @Test("Each stable kernel branch has a first release with the fix, and all from 6.17 have it")
  func branches() {
    for (major, minor, patch) in [
      (5, 4, 298), (5, 10, 242), (5, 15, 191), (6, 1, 150), (6, 6, 104), (6, 12, 45), (6, 16, 5),
    ] {
      let (first, before) = (KernelVersion(major, minor, patch), KernelVersion(major, minor, patch - 1))
      #expect(KernelRepair.known(first) == .present)
      #expect(KernelRepair.known(before) == .missing(before, repaired: first))
      #expect(
        KernelRepair.known(KernelVersion(major, minor, 0, .vendor)) == .unknown(KernelVersion(major, minor, 0, .vendor))
      )
    }
    for version in [
      KernelVersion(6, 17, 0), KernelVersion(6, 17, 0, .vendor), KernelVersion(6, 18, 44),
      KernelVersion(7, 0, 0, .candidate),
    ] {
      #expect(KernelRepair.known(version) == .present)
    }
    for version in [
      KernelVersion(6, 17, 0, .candidate), KernelVersion(6, 15, 11), KernelVersion(6, 8, 0, .vendor),
      KernelVersion(4, 19, 325),
    ] {
      #expect(KernelRepair.known(version) == .unknown(version))
    }
    #expect(KernelRepair.known(nil) == .unknown(nil))
  }

  @Test("A kernel without the fix has a warning of at most 200 characters, and one with the fix has none")
  func sentences() {
    #expect(KernelRepair.present.limit == nil)
    let missing = KernelRepair.known(KernelVersion(6, 1, 149)).limit ?? ""
    let unknown = KernelRepair.known(KernelVersion(6, 8, 0, .vendor)).limit ?? ""
    let nameless = KernelRepair.known(nil).limit ?? ""
    #expect(missing.contains("Linux 6.1.149") && missing.contains("6.1.150"))
    #expect(unknown.contains("Linux 6.8.0") && nameless.hasPrefix("Linux may"))
    for sentence in [missing, unknown, nameless] {
      #expect(sentence.contains("never subscribed") && sentence.count <= 200 && sentence.hasSuffix("."))
    }
  }
}
