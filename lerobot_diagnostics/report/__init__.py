"""Outputs drawn from a :class:`~lerobot_diagnostics.findings.Report`: console, JSON, HTML, pictures, Rerun."""

from lerobot_diagnostics.report.console import print_report
from lerobot_diagnostics.report.versions import collect_versions
from lerobot_diagnostics.report.write import ReportFiles, output_dir, prepare_output_dir, write_report

__all__ = ["ReportFiles", "collect_versions", "output_dir", "prepare_output_dir", "print_report", "write_report"]
