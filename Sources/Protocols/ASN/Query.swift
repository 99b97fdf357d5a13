import Bytes
import Common

/// Executes the commands that only read, for one request. Facts: asn.md sections 6 and 10
struct Query<Store: BlobStore> {
  let view: StoreView<Store>
  let marks: CurrentMarks
  let login: Login
  let dialect: Dialect
  let service: UserKey
  /// Maximum length of an answer, in octets.
  var answer: Int
  let budget: LookupBudget
  /// The portion of a list that the request asks for; nil for the whole list.
  var page: ListPage?
  /// Maximum number of segments for the blobs of one `fetch` or `clone`.
  var streamed = Limits.streamedSegments

  /// The usage of each command, by its name.
  static var usages: [String: String] {
    [
      "approve": "approve SUM...", "auth": "auth [-u USER] AUTH", "blob": "blob <USER|[USER/]NAME> - CONTENT",
      "cat": "cat BLOB...", "clone": "clone [URL|MIRROR][@EPOCH]", "echo": "echo [STRING]...", "fetch": "fetch BLOB...",
      "gc": "gc [-v] [-n] [@EPOCH]", "ls": "ls [BLOB...]", "mark": "mark [-u USER] <LATITUDE LONGITUDE|7?PLACE>",
      "newuser": "newuser <actual|bridge|forum|place>", "objdump": "objdump BLOB...", "rm": "rm BLOB...",
      "users": "users", "vouch": "vouch USER SIG",
    ]
  }

  static func usage(_ name: String) -> Refusal { Refusal(.illFormatted, "usage: " + (usages[name] ?? name)) }

  /// A peer's text in quotation marks, for use in a sentence: at most 40 scalars, without terminal control characters.
  static func printable(_ text: String) -> String { "\"" + PrintableText.clean(text, limit: 40) + "\"" }

  /// Returns the answer to `echo`: the arguments of the command.
  static func echo(_ command: Command) -> String { command.arguments.dropFirst().joined(separator: " ") + "\n" }

  /// Returns the answer to a command that made a blob: the sum of that blob.
  static func answer(_ sum: Sum, _ dialect: Dialect) -> [UInt8] {
    Array((dialect == .seed ? sum.hex : sum.hex.prefix(8) + "...\n").utf8)
  }

  // MARK: References

  var resolver: Resolver<Store> {
    Resolver(
      view: view, marks: marks, login: login, service: service, limit: Limits.sumsInOneRequest, budget: budget,
      page: page)
  }

  func reference(_ text: String) throws(Refusal) -> Reference {
    do throws(WireError) {
      return try Reference(text, dialect: dialect)
    } catch {
      throw Refusal(.illFormatted, "\(Self.printable(text)) is not a reference to a blob")
    }
  }

  /// The blobs that match the references; each blob is listed once.
  func matches(
    _ texts: [String], of name: String
  ) throws(Refusal) -> [Match] {
    guard !texts.isEmpty else { throw Self.usage(name) }
    var matches: [Match] = []
    var seen: Set<Sum> = []
    for text in texts {
      for match in try resolver.matches(try reference(text)) where seen.insert(match.sum).inserted {
        matches.append(match)
      }
    }
    guard matches.count <= Limits.sumsInOneRequest else {
      throw Refusal(.failure, "More than \(Limits.sumsInOneRequest) blobs match; name a directory or add @EPOCH")
    }
    return matches
  }

  private func found(_ sum: Sum) throws(Refusal) -> Blob? {
    if let mark = marks.blob(sum) { return mark }
    return try view.blob(sum)
  }

  func checkAnswer(_ count: Int, _ advice: String) throws(Refusal) {
    guard count <= answer else {
      throw Refusal(.failure, "The answer has more than \(answer) octets; \(advice)")
    }
  }

  // MARK: Commands that read

  func cat(_ arguments: [String]) throws(Refusal) -> StoreOutcome {
    var outcome = StoreOutcome()
    for match in try matches(arguments, of: "cat") {
      guard let blob = try found(match.sum) else { continue }
      outcome.data += blob.content
      try checkAnswer(outcome.data.count, "name fewer blobs, or use fetch")
    }
    return outcome
  }

  func list(_ arguments: [String]) throws(Refusal) -> StoreOutcome {
    var outcome = StoreOutcome()
    let references: [Reference]
    if arguments.isEmpty {
      references = [.own]
    } else {
      var list: [Reference] = []
      for text in arguments { list.append(try reference(text)) }
      references = list
    }
    for reference in references {
      // An empty directory is no error.
      for match in try resolver.matches(reference, allowsNone: arguments.isEmpty) {
        outcome.data += Array((line(match) + "\n").utf8)
        try checkAnswer(outcome.data.count, "name a directory, or add @EPOCH")
      }
    }
    return outcome
  }

  private func line(_ match: Match) -> String {
    guard dialect == .year2015 else { return resolver.line(match) }
    guard let link = match.link else { return "$" + match.sum.hex.prefix(16) }
    return (link.owner == login.key ? "" : "~") + resolver.line(match)
  }

  func dump(_ arguments: [String]) throws(Refusal) -> StoreOutcome {
    var outcome = StoreOutcome()
    for match in try matches(arguments, of: "objdump") {
      let mark = marks.blob(match.sum)?.header
      let stored = mark == nil ? try view.header(match.sum) : nil
      guard let header = mark ?? stored else { continue }
      outcome.data += Array(Self.dump(header, dialect).utf8)
      try checkAnswer(outcome.data.count, "name fewer blobs")
    }
    return outcome
  }

  static func dump(_ header: BlobHeader, _ dialect: Dialect) -> String {
    let name = header.name?.text ?? ""
    let time = CivilTime(epoch: header.epoch)
    guard dialect == .seed else {
      return "name: \(name)\nowner: \(header.owner.hex.prefix(8))...\nauthor: \(header.author.hex.prefix(8))...\n"
        + "time: \(time.long)\nlen: \(header.contentSize)\n"
    }
    return "name: \(name)\nsum: \(header.sum.hex)\nowner: \(header.owner.hex)\nauthor: \(header.author.hex)\n"
      + "time: \(time.short)\nepoch: \(header.epoch)\nsize: \(header.size)\nlen: \(header.contentSize)\n"
  }

  func fetch(_ arguments: [String]) throws(Refusal) -> StoreOutcome {
    guard login.role != .user else { throw .denied }
    var outcome = StoreOutcome()
    outcome.stream = try matches(arguments, of: "fetch").map(\.sum)
    var segments = 0
    for sum in outcome.stream {
      let mark = marks.blob(sum)?.header
      let stored = mark == nil ? try view.header(sum) : nil
      try checkStream(&segments, (mark ?? stored)?.size ?? 0)
    }
    return outcome
  }

  /// Counts the segments of a blob that will be streamed, and refuses the request if one key has too few counter
  /// values.
  private func checkStream(_ segments: inout Int, _ size: Int) throws(Refusal) {
    segments += BoxChannel.segments(size)
    guard segments <= streamed else {
      throw Refusal(
        .failure, "The blobs have more than \(streamed * Limits.segmentPlaintext) octets; name fewer, or add @EPOCH")
    }
  }

  /// Executes `clone`: returns every blob, or those of a later epoch. Copying from another server is not supported.
  func clone(_ arguments: [String]) throws(Refusal) -> StoreOutcome {
    guard login.role == .admin else { throw .denied }
    guard arguments.count < 2 else { throw Self.usage("clone") }
    var since: UInt64?
    if let argument = arguments.first {
      guard argument.hasPrefix("@") else {
        throw Refusal(.unsupported, "clone with a URL or MIRROR is not supported")
      }
      guard let epoch = Reference.epoch(argument.dropFirst()) else { throw Self.usage("clone") }
      since = epoch
    }
    var outcome = StoreOutcome()
    var last: UInt64 = 0
    var segments = 0
    while true {
      let changes = try view.changes(after: last, limit: 256)
      for change in changes where change.kind == .inserted {
        guard let header = try view.header(change.sum), header.epoch > since ?? 0 else { continue }
        try checkStream(&segments, header.size)
        outcome.stream.append(change.sum)
      }
      guard let number = changes.last?.number else { return outcome }
      last = number
    }
  }

  func users() throws(Refusal) -> StoreOutcome {
    var outcome = StoreOutcome()
    var last: UserKey?
    while true {
      let users = try view.users(after: last, limit: 256)
      for user in users { outcome.data += Array((user.hex + "\n").utf8) }
      try checkAnswer(outcome.data.count, "there is no shorter one")
      guard users.count == 256 else { return outcome }
      last = users.last
    }
  }
}

/// A date and time of day in UTC, in the formats of `objdump`.
struct CivilTime {
  let year: Int64
  let month: Int
  let day: Int
  let hour: Int
  let minute: Int
  let second: Int

  /// - Parameter epoch: nanoseconds since 1970.
  init(epoch: UInt64) {
    let seconds = Int64(epoch / 1_000_000_000)
    let (days, rest) = (seconds / 86_400, Int(seconds % 86_400))
    (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60)
    // Days since 0000-03-01, in eras of 400 years.
    let shifted = days + 719_468
    let (era, ofEra) = (shifted / 146_097, shifted % 146_097)
    let yearOfEra = (ofEra - ofEra / 1460 + ofEra / 36_524 - ofEra / 146_096) / 365
    let ofYear = ofEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * ofYear + 2) / 153
    day = Int(ofYear - (153 * shiftedMonth + 2) / 5 + 1)
    month = Int(shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9)
    year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
  }

  private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

  private func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }

  /// Formats as `20 Nov 14 16:13 +0000`.
  var short: String {
    "\(two(day)) \(Self.months[month - 1]) \(two(Int(year % 100))) \(two(hour)):\(two(minute)) +0000"
  }

  /// Formats as `2014-11-20 16:13:20 +0000 UTC`.
  var long: String {
    "\(year)-\(two(month))-\(two(day)) \(two(hour)):\(two(minute)):\(two(second)) +0000 UTC"
  }
}
