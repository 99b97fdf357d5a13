import Checking
import CommandLine
import Common
import DBus
import Testing
import Tool

@testable import Commands

/// A watch model for which the test plays the service and the terminal.
private struct Watch {
  static let root = "/org/earshot/verifier"
  var model: WatchModel
  var now = Instant.zero
  /// Milliseconds since 1970-01-01 UTC at `Instant.zero`.
  let begin: UInt64 = 1_900_000_000_000
  /// All actions so far.
  private(set) var actions: [WatchAction] = []

  init(_ options: WatchOptions = WatchOptions()) { model = WatchModel(options) }

  static func path(_ number: Int) -> String { "\(root)/credential\(number)" }

  var date: UInt64 { begin + UInt64(now.nanoseconds / 1_000_000) }

  mutating func handle(_ event: WatchEvent) { actions += model.handle(event, at: now, date: date) }

  mutating func pass(_ time: Duration) { now = now.advanced(by: time) }

  /// Properties of a credential that was received `age` ago.
  func properties(
    _ state: String, age: Duration = .zero, isLive: Bool = false, deadline: UInt64 = 0, expires: Bool = true
  ) -> [String: DBusValue] {
    let received = state == "received" || state == "accepted" ? date - UInt64(age / .milliseconds(1)) : 0
    return [
      "State": .string(state), "Live": .bool(isLive), "ReceivedAt": .uint64(received),
      "ExpiresAt": .uint64(expires ? received + 7_200_000 : 0), "VerdictDeadline": .uint64(deadline),
      "Size": .uint64(1234),
    ]
  }

  mutating func come(_ transfers: [Int: [String: DBusValue]] = [:]) {
    var objects: ToolPart.Objects = [Self.root: ["org.earshot.Verifier1": ["State": .string("waiting")]]]
    for (number, properties) in transfers { objects[Self.path(number)] = ["org.earshot.Credential1": properties] }
    handle(.came(objects))
  }

  mutating func change(_ number: Int, _ values: [String: DBusValue]) {
    handle(.changed(path: Self.path(number), interface: "org.earshot.Credential1", values))
  }

  /// Simulates that a phone has connected and transferred a credential.
  mutating func receive(_ number: Int, deadline: UInt64 = 0) {
    handle(.added(path: Self.path(number), properties("connected", isLive: true)))
    change(number, properties("received", isLive: true, deadline: deadline))
  }

  mutating func taken(_ number: Int, _ state: String = "received", deadline: UInt64 = 0) {
    let properties = properties(state, isLive: true, deadline: deadline)
    handle(
      .taken(path: Self.path(number), TakenCredential(properties: properties, bytes: 1234, file: "f\(number)")))
  }

  /// The credentials that the model requested to fetch, in order, by the last parts of their object paths.
  var takes: [String] {
    actions.compactMap { if case .take(let path, _) = $0 { String(path.dropFirst(Self.root.count + 1)) } else { nil } }
  }
  var verdicts: [String] {
    actions.compactMap {
      if case .judge(let path, let verdict) = $0 {
        "\(verdict.past) \(path.dropFirst(Self.root.count + 1))"
      } else {
        nil
      }
    }
  }
  var reports: [WatchReport] { actions.compactMap { if case .report(let report) = $0 { report } else { nil } } }
  var sentences: [String] { reports.map(\.sentence).filter { !$0.isEmpty } }
  var ends: [ExitCode] {
    actions.compactMap {
      guard case .finish(let result) = $0 else { return nil }
      switch result {
      case .success(let code): return code
      case .failure(let failure): return failure.code
      }
    }
  }
}

@Suite("The state of `earshot verifier watch`") struct WatchModelTests {
  private static let accepting = { () -> WatchOptions in
    var options = WatchOptions()
    options.verdict = .accept
    return options
  }()

  @Test("`verifier watch` does not fetch or judge earlier credentials without a request")
  func older() {
    var watch = Watch(Self.accepting)
    watch.come([1: watch.properties("received", age: .seconds(60)), 2: watch.properties("accepted", age: .seconds(60))])
    #expect(watch.takes.isEmpty && watch.verdicts.isEmpty)
    #expect(watch.sentences.contains("1 earlier credential waits for a verdict."))
    // A credential of an earlier run, restored after the watch has begun, is not taken.
    watch.pass(.seconds(10))
    watch.handle(.added(path: Watch.path(3), watch.properties("received", age: .seconds(60))))
    watch.handle(.added(path: Watch.path(4), watch.properties("accepted", age: .seconds(60))))
    #expect(watch.takes.isEmpty && watch.verdicts.isEmpty)
    // It is not taken after a restart of the service either.
    watch.handle(.went)
    watch.pass(.seconds(10))
    watch.come([1: watch.properties("received", age: .seconds(80)), 3: watch.properties("received", age: .seconds(80))])
    #expect(watch.takes.isEmpty && watch.verdicts.isEmpty)
    watch.receive(5)
    #expect(watch.takes == ["credential5"])
  }

  @Test("`verifier watch --waiting` fetches earlier credentials, except those already accepted and fetched")
  func waiting() {
    var options = WatchOptions()
    options.takesWaiting = true
    var watch = Watch(options)
    watch.come([
      1: watch.properties("received", age: .seconds(60)), 2: watch.properties("accepted", age: .seconds(60)),
      3: watch.properties("accepted", age: .seconds(60), expires: false),
    ])
    #expect(watch.takes == ["credential1"])
    watch.taken(1)
    #expect(watch.takes == ["credential1", "credential2"])
    watch.taken(2, "accepted")
    #expect(watch.takes.count == 2)
  }

  @Test("`verifier watch` fetches, reports and then judges credentials, one at a time")
  func order() {
    var watch = Watch(Self.accepting)
    watch.come()
    watch.receive(1)
    watch.receive(2)
    #expect(watch.takes == ["credential1"] && watch.verdicts.isEmpty)
    watch.taken(1)
    #expect(watch.verdicts == ["Accepted credential1"] && watch.takes == ["credential1"])
    watch.handle(.judged(path: Watch.path(1), ["State": .string("accepted"), "VerdictDelivery": .string("peerGone")]))
    #expect(watch.sentences.last == "Accepted credential1. The phone had already left and was not notified.")
    #expect(watch.takes == ["credential1", "credential2"])
  }

  @Test("`verifier watch` reports a restart of the service once, and fetches only credentials received after it")
  func restart() {
    var watch = Watch()
    watch.come()
    watch.receive(1)
    watch.taken(1)
    watch.handle(.went)
    watch.handle(.went)
    #expect(watch.sentences.count { $0 == "The service has ended; waiting for it." } == 1)
    #expect(watch.model.troubles == ["The service is not running; waiting for it."])
    watch.pass(.seconds(20))
    watch.come([1: watch.properties("received", age: .seconds(20)), 2: watch.properties("received", age: .seconds(1))])
    #expect(watch.takes == ["credential1", "credential2"] && watch.ends.isEmpty)
    watch.taken(2)
    // Objects that the service removes as it ends are not taken again when it returns.
    watch.handle(.removed(path: Watch.path(1)))
    watch.handle(.went)
    watch.come([1: watch.properties("received", age: .seconds(20)), 2: watch.properties("received", age: .seconds(1))])
    #expect(watch.takes.count == 2)
  }

  @Test("`verifier watch` repeats a fetch or verdict that a restart of the service interrupted")
  func interrupted() {
    var watch = Watch(Self.accepting)
    watch.come()
    watch.receive(1)
    watch.handle(.went)
    watch.handle(.notTaken(path: Watch.path(1), Failure(.timeout, "no reply")))
    #expect(watch.sentences.last == "The service has ended; waiting for it.")
    watch.come([1: watch.properties("received")])
    #expect(watch.takes == ["credential1", "credential1"])
    watch.taken(1)
    watch.handle(.went)
    // The answer to a call of the previous run may arrive after the next run has started.
    watch.come([1: watch.properties("received")])
    watch.handle(.notJudged(path: Watch.path(1), Failure(.timeout, "no reply"), [:]))
    #expect(watch.takes.count == 2 && watch.verdicts == ["Accepted credential1", "Accepted credential1"])
  }

  @Test("If a service without a disk uses a number again, `verifier watch` treats it as another credential")
  func numberAgain() {
    var watch = Watch()
    watch.come()
    watch.receive(1)
    watch.taken(1)
    watch.handle(.went)
    watch.pass(.seconds(60))
    watch.come([1: watch.properties("received")])
    #expect(watch.takes == ["credential1", "credential1"])
  }

  @Test(
    "`verifier watch` reports phones that wait, leave or are refused, failures, and verdicts of other programs"
  )
  func said() {
    var watch = Watch()
    watch.come()
    watch.receive(1, deadline: watch.date + 30_000)
    watch.taken(1, deadline: watch.date + 30_000)
    #expect(watch.sentences.last == "Received credential1: 1.2 KiB; it is in f1. A verdict is awaited for 30 s.")
    #expect(watch.model.waiting.map(\.view.name) == ["credential1"])
    watch.change(1, ["Live": .bool(false), "VerdictDeadline": .uint64(0)])
    #expect(watch.sentences.last == "The phone of credential1 has left. A verdict does not reach it any more.")
    watch.change(1, ["State": .string("rejected"), "VerdictDelivery": .string("peerGone")])
    #expect(
      watch.sentences.last == "credential1 was rejected. The phone had already left and was not notified.")
    #expect(watch.model.waiting.isEmpty)
    watch.handle(.added(path: Watch.path(2), watch.properties("connected", isLive: true)))
    watch.change(2, ["State": .string("failed"), "ErrorCode": .string("TVV_TRA_002")])
    watch.handle(.looked(path: Watch.path(2), ["ErrorMessage": .string("64 of 82 chunks are missing.")]))
    #expect(watch.sentences.last == "credential2 failed. TVV_TRA_002: 64 of 82 chunks are missing.")
    watch.handle(.refused(code: "wrongCode", sentence: "Scan the code that is shown now."))
    #expect(watch.sentences.last == "A phone was refused. Scan the code that is shown now.")
    #expect(watch.reports.last?.members.first == .init("refused", "wrongCode"))
  }

  @Test("`verifier watch` reports a full verifier with the command that shows the waiting credentials")
  func full() {
    var watch = Watch()
    watch.come()
    watch.handle(
      .changed(
        path: Watch.root, interface: "org.earshot.Verifier1", ["State": .string("full"), "ConnectionUri": .string("")]))
    #expect(
      watch.sentences.last
        == "No wallet is invited, because the maximum number of credentials wait. Try: earshot transfers")
  }

  @Test(
    "An operator's verdict on a credential that is not stored yet waits until it is stored"
  )
  func operated() {
    var watch = Watch()
    watch.come([1: watch.properties("received", age: .seconds(60)), 2: watch.properties("received", age: .seconds(60))])
    watch.handle(.ordered(path: Watch.path(1), .accept))
    #expect(watch.takes == ["credential1"] && watch.verdicts.isEmpty)
    watch.taken(1)
    #expect(watch.verdicts == ["Accepted credential1"])
    watch.handle(.judged(path: Watch.path(1), ["State": .string("accepted")]))
    watch.handle(.ordered(path: Watch.path(2), .reject))
    #expect(watch.takes == ["credential1"] && watch.verdicts == ["Accepted credential1", "Rejected credential2"])
  }

  @Test("An interrupted `verifier watch` ends after the current credential is stored and judged")
  func stop() {
    var watch = Watch(Self.accepting)
    watch.come()
    watch.receive(1)
    watch.receive(2)
    watch.handle(.stop(.left))
    #expect(watch.ends.isEmpty)
    watch.taken(1)
    #expect(watch.ends.isEmpty && watch.verdicts == ["Accepted credential1"])
    watch.handle(.judged(path: Watch.path(1), ["State": .string("accepted")]))
    #expect(watch.ends == [.ok] && watch.takes == ["credential1"])
  }

  @Test("`verifier watch --once` ends after one transfer, and fails if the transfer failed or timed out")
  func once() {
    var options = WatchOptions()
    options.isOnce = true
    var watch = Watch(options)
    watch.come()
    watch.receive(1)
    watch.taken(1)
    #expect(watch.ends == [.ok])
    watch = Watch(options)
    watch.come()
    watch.handle(.stop(.time))
    #expect(watch.ends == [.timeout])
    watch = Watch(options)
    watch.come()
    watch.handle(.added(path: Watch.path(1), watch.properties("connected", isLive: true)))
    watch.handle(.went)
    watch.come()
    #expect(watch.ends == [.notRunning])
  }
}

@Suite("Checker's verdicts in `earshot verifier watch`") struct WatchCheckTests {
  private static func checked(_ verdict: String, _ reasons: [(String, String)] = []) -> [String: DBusValue] {
    [
      "Verdict": .string(verdict), "Issuer": .string(verdict == "valid" ? "Residents Office" : ""),
      "CredentialType": .string("ResidentCredential"),
      "VerdictReasons": .array(of: "(ss)", reasons.map { .structure([.string($0.0), .string($0.1)]) }),
    ]
  }

  private static let claims = #"{"fullName":"Asha Example"}"#

  private static func checks(_ watch: Watch) -> [String] {
    watch.actions.compactMap { if case .check(let path) = $0 { path } else { nil } }
  }

  @Test("`verifier watch` requests a checker's verdict and reports it with issuer and claims")
  func after() {
    var watch = Watch()
    watch.come()
    watch.receive(1)
    watch.taken(1)
    watch.handle(.verdictReceived(path: Watch.path(1)))
    #expect(Self.checks(watch) == [Watch.path(1)])
    watch.handle(.checked(path: Watch.path(1), Self.checked("valid"), claims: Self.claims))
    #expect(watch.sentences.last == "credential1 is valid, issued by Residents Office.")
    let members = watch.reports.last?.members ?? []
    #expect(members.contains(.init("claims", .object([.init("fullName", "Asha Example")]))))
    // No claim is in the sentences, which stay on the terminal.
    #expect(!watch.sentences.contains { $0.contains("Asha") })
  }

  @Test("A checker's verdict that arrives before its credential is stored is reported after the credential")
  func before() {
    var watch = Watch()
    watch.come()
    watch.receive(1)
    let reasons = [("signatureWrong", "The signature does not match the content and the key.")]
    watch.handle(.verdictReceived(path: Watch.path(1)))
    watch.handle(.checked(path: Watch.path(1), Self.checked("invalid", reasons), claims: nil))
    #expect(!watch.sentences.contains { $0.contains("invalid") })
    watch.taken(1)
    #expect(
      watch.sentences.suffix(1) == [
        "credential1 is invalid (signatureWrong). The signature does not match the content and the key."
      ])
    #expect(watch.reports.last?.tone == .bad)
  }

  @Test("`verifier watch` and `earshot check` print reasons in the form that the checker uses")
  func reasons() throws {
    let sentence = "Because of signatureWrong."
    var watch = Watch()
    watch.come()
    watch.receive(1)
    watch.taken(1)
    watch.handle(.verdictReceived(path: Watch.path(1)))
    watch.handle(.checked(path: Watch.path(1), Self.checked("invalid", [("signatureWrong", sentence)]), claims: nil))
    let members = try #require(watch.reports.last?.members)
    let watched = try #require(members.first { $0.name == "reasons" }).value
    let line = #"{"verdict": "invalid", "reasons": [{"code": "signatureWrong", "sentence": "\#(sentence)"}]}"#
    let document = try CheckReply.verdict(Array((line + "\n").utf8)).document
    #expect(try JSONReader.read(document)["reasons"] == watched)
    let failure = CheckText.json(CheckVerdict(.failed))["reasons"]
    let expected: [JSONValue.Member] = [
      .init("code", "checkerFailed"), .init("sentence", "The checker ended without a verdict."),
    ]
    #expect(failure == .array([.object(expected)]))
  }

  @Test(
    "A verdict of an earlier run is requested with its credential, and one of an unknown transfer is ignored"
  )
  func earlier() {
    var watch = Watch(WatchOptions(takesWaiting: true))
    watch.come([1: watch.properties("received", age: .seconds(60)).merging(Self.checked("expired")) { $1 }])
    #expect(Self.checks(watch) == [Watch.path(1)])
    watch.handle(.verdictReceived(path: Watch.path(9)))
    watch.handle(.checked(path: Watch.path(9), Self.checked("valid"), claims: Self.claims))
    #expect(Self.checks(watch).count == 1 && !watch.sentences.contains { $0.contains("credential9") })
  }

  @Test("`verifier watch` shows no control characters of checker or service, and at most 100 lines of claims")
  func hostile() {
    let evil = "\u{1B}[2Jx\u{202E}y"
    let text =
      CheckText.summary("invalid", issuer: evil, codes: [evil])
      + CheckText.claimLines("{\"\\u001b[2J\":\"\\u202e\"}").joined()
      + CheckText.claimSummary("{\"a\":[\"\\u001b[2J\"]}")
    #expect(!text.unicodeScalars.contains { $0.value < 0x20 || $0 == "\u{202E}" })
    #expect(CheckText.claimLines("not JSON") == [] && CheckText.claimSummary("[]") == "")
    let many = "{" + (1...500).map { "\"claim\($0)\":1" }.joined(separator: ",") + "}"
    #expect(CheckText.claimLines(many).last == "and 400 more claims")
  }
}
