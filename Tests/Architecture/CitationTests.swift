import Testing

@Suite("Citations of documents in comments")
struct CitationTests {
  @Test("Every document page and section that a comment cites exists")
  func tree() throws {
    let pages =
      try House.files(below: "docs", suffix: ".md") + ["README.md", "CONTRIBUTING.md"].map { try House.read($0) }
    let citations = Citations(pages)
    let sources = try ["Sources", "Tests", "scripts"].flatMap { try House.files(below: $0) }
      .filter { $0.path.hasSuffix(".swift") || $0.path.hasSuffix(".py") || !$0.path.contains(".") }
    #expect((sources + pages).flatMap(citations.broken) == [])
    // The checker finds them: most files of Tuvali cite its sheet.
    let engines = sources.filter { $0.path.hasPrefix("Sources/Protocols/Tuvali") }
    #expect(engines.count { $0.text.contains("acts: tuvali" + ".md") } > 10)
  }

  // MARK: The checker

  static let sheet = SourceFile(
    path: "docs/facts/radio" + ".md",
    text: """
      # Radio
      ## 1. Beginnings
      ## 2 Middles
      ### Error codes (of all)
      ### 2.1. A trap
      ## 3. Ends
      ### Nothing
      ```
      ## 4. In an example
      ```
      ##5. No heading
      """)
  static let page = SourceFile(path: "docs/security" + ".md", text: "# Security")

  /// `%` stands for the suffix; otherwise this file itself would contain the citation.
  private func broken(_ text: String, in path: String = "Sources/Host/Radio/Sample.swift") -> [String] {
    let text = text.split(separator: "%", omittingEmptySubsequences: false).joined(separator: ".md")
    return Citations([Self.sheet, Self.page]).broken(in: SourceFile(path: path, text: text))
  }

  @Test(
    "A citation of an existing page and section is not reported",
    arguments: [
      "/// Facts: radio% section 1", "/// It is so (facts: radio% section 2).", "// Facts: radio% sections 1 and 3.",
      "/// Facts: radio% sections 1 to 3.", "/// Facts: radio% section 2.1.",
      "/// Facts: radio%\n/// section 2, and more",
      "/// Facts: radio% sections 1, 2 and 3", "/// Facts: radio% section 2, \"Error codes\".",
      "/// Facts: radio% section 3, radio% section 1", "read(\"docs/security%\")", "https://example.org/other%",
      "glob(\"*%\")", "issuer%oc(a)",
    ])
  func good(text: String) {
    #expect(broken(text) == [])
  }

  @Test(
    "A citation is reported if its page or section does not exist, or if it names no section",
    arguments: [
      "/// Facts: radio% section 4", "/// Facts: radio% section 5", "/// Facts: radio% section 2.2",
      "/// Facts: radio% sections 1 to 4", "/// Facts: radio% sections 3 and 9", "/// Facts: other% section 1",
      "/// Facts: radio%", "/// Facts: radio%,\n/// section four", "/// Facts: radio% section 1, \"Error codes\"",
      "/// Facts: radio% section 2, \"Codes\"", "/// Facts: radio% section 3, \"In an example\"", "/// See docs/other%",
      "/// See facts/radio%", "/// See other%", "/// Facts: radio%\n///   sections 1\n/// and 9",
    ])
  func bad(text: String) {
    #expect(broken(text).count == 1)
  }

  @Test("A report of a wrong citation has the file and line of the citation")
  func place() {
    #expect(
      broken("let a = 1\n\n/// Facts: radio% section 7") == [
        "Sources/Host/Radio/Sample.swift:3: " + "radio" + ".md has no section 7"
      ])
  }

  @Test("Relative links between documents, and names of foreign source files in fact sheets, are not reported")
  func pages() {
    #expect(broken("[x](security%) and [y](facts/radio%) and radio% section 1", in: "docs/a" + ".md") == [])
    #expect(broken("[x](other%)", in: "docs/a" + ".md").count == 1)
    #expect(broken("[x](docs/security%)", in: "README" + ".md") == [])
    #expect(broken("i: docs/review%, x/other%", in: "docs/facts/a" + ".md") == [])
    #expect(broken("docs/facts/other%, radio% section 8", in: "docs/facts/a" + ".md").count == 2)
  }

  @Test("A citation of several sections, as a range or a list, is expanded to each section")
  func numbers() {
    #expect(Citations.numbers("1 to 4 and 7") == ["1", "2", "3", "4", "7"])
    #expect(Citations.numbers("2.1, 3 and 5 to 6") == ["2.1", "3", "5", "6"])
  }
}
