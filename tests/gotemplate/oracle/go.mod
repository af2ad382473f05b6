module orangery/gotemplate/oracle

go 1.26.0
